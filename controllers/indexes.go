package controllers

import (
	"slices"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmconfig"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmexternalcontrolplane"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/orphan"
)

// served reports whether a kind is served, as far as this process was told.
func (d *Deps) served(k Kind) bool { return d.Served != nil && d.Served(k) }

func (d *Deps) unserved(k Kind) bool { return !d.served(k) }

// witnesses says which group, besides those that run here, is asked for owners
// of VMs before one is taken for an orphan.
func witnesses(running []APIGroup, served func(Kind) bool) (native, infrastructure bool) {
	collects := slices.Contains(running, Native) || slices.Contains(running, Infrastructure)
	native = collects && !slices.Contains(running, Native) && served(Kind{"machines", machinev1.GroupVersion})
	infrastructure = collects && !slices.Contains(running, Infrastructure) && !slices.ContainsFunc(Infrastructure.Needs(),
		func(k Kind) bool { return !served(k) })
	return native, infrastructure
}

// controlIndexes are the indexes of the control cluster that these groups need.
// Only kinds that are served may be indexed.
func controlIndexes(groups []APIGroup, served func(Kind) bool) []index.Index {
	var found []index.Index
	has := func(d APIGroup) bool { return slices.Contains(groups, d) }
	native, infrastructure := witnesses(groups, served)
	if has(Native) {
		found = append(found, index.Control()...)
	} else if has(Infrastructure) || has(Bootstrap) {
		found = append(found, index.Classes()...)
	}
	if has(Native) || native {
		found = append(found, orphan.Indexes()...)
	}
	switch {
	case has(Infrastructure):
		found = append(found, index.Infrastructure()...)
	case infrastructure:
		found = append(found, slices.DeleteFunc(index.Infrastructure(), func(x index.Index) bool { return !ownsVMs(x) })...)
	}
	if has(Bootstrap) {
		found = append(found, mcmconfig.Indexes()...)
	}
	if has(ControlPlane) {
		found = append(found, mcmexternalcontrolplane.Indexes()...)
	}
	return found
}

// ownsVMs reports whether an index is of a kind that the collector of the other
// group reads.
func ownsVMs(x index.Index) bool {
	switch x.Object.(type) {
	case *infrav1.MCMMachine, *infrav1.MCMCluster:
		return true
	}
	return false
}
