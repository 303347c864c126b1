package migration

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Holder is who holds a Lease.
type Holder string

// The holders of MCM's leases. Two processes of MCM's hold one each, a manager of
// this project holds both, and each works only while it holds its own.
const (
	HolderNobody  Holder = "nobody"  // it is free, was given back, or has run out
	HolderOurs    Holder = "ours"    // a manager of this project
	HolderForeign Holder = "foreign" // somebody else, Machine Controller Manager most likely
)

// leaseSkew is how far clocks may be apart: a Lease that has only just run out by
// the clock here may be alive by its holder's.
const leaseSkew = 30 * time.Second

// HolderOf says who holds a Lease at a time; nil is one that does not exist. A
// Lease whose holder does not say until when counts as held. What is said is true
// of that moment only: only the Deployments show whether another manager is
// about to start.
func HolderOf(l *coordinationv1.Lease, now time.Time) Holder {
	if l == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || ranOut(&l.Spec, now) {
		return HolderNobody
	}
	if mark := l.Labels[machinev1.LeaseHolderLabel]; mark != "" && mark == machinev1.LeaseMark(*l.Spec.HolderIdentity) {
		return HolderOurs
	}
	return HolderForeign
}

// ranOut reports whether the holder has not renewed the Lease for so long that
// somebody else may have it.
func ranOut(s *coordinationv1.LeaseSpec, now time.Time) bool {
	if s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.After(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second + leaseSkew))
}
