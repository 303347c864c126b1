package migration

import (
	"time"
)

// defaultNodeConditions are MCM's of --node-conditions.
const defaultNodeConditions = "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable"

// Complete returns d with MCM's defaults where it says nothing.
func (d Defaults) Complete() Defaults {
	for _, field := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&d.DrainTimeout, 2 * time.Hour},
		{&d.HealthTimeout, 10 * time.Minute},
		{&d.CreationTimeout, 20 * time.Minute},
		{&d.InPlaceUpdateTimeout, 20 * time.Minute},
		{&d.PvDetachTimeout, 2 * time.Minute},
	} {
		if *field.value <= 0 {
			*field.value = field.fallback
		}
	}
	if d.NodeConditions == "" {
		d.NodeConditions = defaultNodeConditions
	}
	return d
}

// Options are what a person decides about a move.
type Options struct {
	// To is the API to move to.
	To API
	// Cluster is the name of the Cluster, in the pools' namespace, that the machines
	// are to belong to, or belong to. One that does not exist is made.
	Cluster string
	// KubeconfigSecret names the Secret, in the pools' namespace, through which
	// Cluster API reaches the cluster with the nodes. Empty: that is the cluster
	// with the objects, and the Cluster becomes self-hosted.
	KubeconfigSecret string
	// Apart is true when the nodes are known to be in another cluster than the objects,
	// see [Apart]: then Cluster API has to be told how to reach it.
	Apart bool
	// Accept names fields, as findings spell them, whose loss is accepted.
	Accept []string
	// Defaults hold where a Machine says nothing: the flags of its manager.
	Defaults Defaults
	// Now is when a plan is made: a Lease that has expired by then has no holder.
	// Zero: every Lease with a holder counts as held.
	Now time.Time
	// Timeout is how long one step may wait for controllers; 0 is 10 minutes.
	Timeout time.Duration
	// TakeOver goes on with a pool although another command seems to work on it.
	TakeOver bool

	Rollback bool // the machines go home as they are, whatever a plan says
}

// Defaults are the manager's flags of the same names.
type Defaults struct {
	DrainTimeout         time.Duration // 0 is 2h
	HealthTimeout        time.Duration // 0 is 10m
	CreationTimeout      time.Duration // 0 is 20m
	NodeConditions       string        // empty is KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable
	InPlaceUpdateTimeout time.Duration // 0 is 20m
	MaxEvictRetries      int32         // 0 is the manager's
	PvDetachTimeout      time.Duration // 0 is 2m
	// KubeletVersion is what machines of pools without nodes will run, as their
	// kubelet will report it: "v1.36.3". Where there are nodes, theirs counts.
	KubeletVersion string
}
