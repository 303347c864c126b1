package controllers

import (
	"slices"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/orphan"
)

// The collector of each API judges the resources of its own kinds, and finds owners in
// both: a VM that was migrated to the other API has an owner there.

func addOrphans(s *setup) error {
	apis := []orphan.Owners{orphan.NewMachines(s.Client, s.Live, s.Namespace)}
	if _, other := witnesses(s.running, s.served); other || slices.Contains(s.running, Infrastructure) {
		apis = append(apis, orphan.OwnersOnly(orphan.NewMCMMachines(s.Client, s.Live, s.Namespace)))
	}
	return s.collect("machinesafetyorphanvms", machineComponent, machinev1.HeldOrphansAnnotation, apis)
}

func addMCMOrphans(s *setup) error {
	apis := []orphan.Owners{orphan.NewMCMMachines(s.Client, s.Live, s.Namespace)}
	if other, _ := witnesses(s.running, s.served); other || slices.Contains(s.running, Native) {
		apis = append(apis, orphan.OwnersOnly(orphan.NewMachines(s.Client, s.Live, s.Namespace)))
	}
	return s.collect("mcmorphanvms", "mcmorphanvms-controller", machinev1.HeldClusterAPIOrphansAnnotation, apis)
}

// collect adds a collector, whose metrics two of them share.
func (s *setup) collect(name, component, heldKey string, apis []orphan.Owners) error {
	c := orphan.New(orphan.Deps{
		Name: name, HeldKey: heldKey, Client: s.Client, Live: s.Live, Namespace: s.Namespace,
		Classes: s.classes, Clock: s.Clock, Events: s.Events(component),
		Options: s.Options.Orphans, Fresh: cloud.NotBefore,
		APIs: apis,
	})
	if s.Metrics != nil {
		if err := c.Register(s.Metrics, s.Clouds.Names()); err != nil {
			return err
		}
	}
	return c.SetupWithManager(s.mgr, s.Workers(name))
}
