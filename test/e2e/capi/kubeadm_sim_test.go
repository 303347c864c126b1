package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// estate is a cloud as its owner sees it, as far as it is a Cluster's.
type estate interface {
	guests.Cloud
	// Left names everything that is there.
	Left(ctx context.Context) ([]string, error)
	// Settled reports what is not yet as it stays, where the control plane has these VMs.
	Settled(ctx context.Context, controlPlane []string) error
}

// simulated is the simulated cloud; without the name of a Cluster all of it.
type simulated struct {
	cloud   *stack.Cloud
	cluster string
}

func (s simulated) all(ctx context.Context, kind string) ([]sim.Resource, error) {
	all, err := s.cloud.Live(ctx, kind)
	return slices.DeleteFunc(all, func(r sim.Resource) bool {
		return s.cluster != "" && r.Tags["kubernetes.io/cluster/"+s.cluster] == ""
	}), err
}

// VMs returns the VMs that are not gone.
func (s simulated) VMs(ctx context.Context) ([]guests.VM, error) {
	all, err := s.all(ctx, sim.KindVM)
	var vms []guests.VM
	for _, r := range all {
		version, _ := strings.CutPrefix(r.VM.Image, imagePrefix)
		vms = append(vms, guests.VM{
			ID: r.ID, Name: r.Name(), Version: version, ProviderID: sim.ProviderID(r.Zone, r.ID),
			Running:  r.VM.State == sim.StateRunning,
			Metadata: guests.Metadata{InstanceID: r.ID, Hostname: r.Name(), Region: r.Region, Zone: r.Zone},
		})
	}
	return vms, err
}

// UserData returns what a VM boots with.
func (s simulated) UserData(ctx context.Context, id string) ([]byte, error) {
	return s.cloud.UserData(ctx, id)
}

// Left names everything that is there.
func (s simulated) Left(ctx context.Context) ([]string, error) {
	all, err := s.all(ctx, "")
	var left []string
	for _, r := range all {
		left = append(left, fmt.Sprintf("%s %s: %v", r.Kind, r.ID, r.Tags))
	}
	return left, err
}

// Settled reports nothing: there is no load balancer.
func (simulated) Settled(context.Context, []string) error { return nil }
