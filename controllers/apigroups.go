package controllers

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// An APIGroup is one of the APIs that this manager implements: its kinds are served together, and its
// controllers run together or not at all.
type APIGroup string

// The API groups: the kinds of MCM, and the three providers of Cluster API.
const (
	Native         APIGroup = "machine.sapcloud.io"
	Infrastructure APIGroup = "infrastructure.cluster.x-k8s.io"
	Bootstrap      APIGroup = "bootstrap.cluster.x-k8s.io"
	ControlPlane   APIGroup = "controlplane.cluster.x-k8s.io"
)

// A Kind is a kind that has to be served: the plural name and its group.
type Kind struct {
	Plural  string
	Version schema.GroupVersion
}

// String is the kind as the API server names its CRD.
func (k Kind) String() string { return k.Plural + "." + k.Version.Group }

// Needs are the kinds that the group's controllers read, sorted.
func (g APIGroup) Needs() []Kind {
	of := func(version schema.GroupVersion, plurals ...string) []Kind {
		var kinds []Kind
		for _, p := range plurals {
			kinds = append(kinds, Kind{p, version})
		}
		return kinds
	}
	core := of(clusterv1.GroupVersion, "clusters", "machines")
	switch g {
	case Native:
		return of(machinev1.GroupVersion, "machineclasses", "machinedeployments", "machines", "machinesets")
	case Infrastructure:
		return slices.Concat(of(infrav1.GroupVersion, "mcmclusters", "mcmmachines", "mcmmachinetemplates"),
			of(machinev1.GroupVersion, "machineclasses"), core)
	case Bootstrap:
		return slices.Concat(of(bootstrapv1.GroupVersion, "mcmconfigs", "mcmconfigtemplates"),
			of(machinev1.GroupVersion, "machineclasses"), core)
	case ControlPlane:
		return slices.Concat(of(controlplanev1.GroupVersion, "mcmexternalcontrolplanes"), core)
	}
	return nil
}

// IPAMKinds are the kinds that claim IP addresses. The controllers of Infrastructure use
// them where they are served.
func IPAMKinds() []Kind {
	return []Kind{{"ipaddressclaims", ipamv1.GroupVersion}, {"ipaddresses", ipamv1.GroupVersion}}
}

// remediationKinds are the kinds of external remediation, which Infrastructure serves where
// they are there.
func remediationKinds() []Kind { return []Kind{{"mcmremediations", infrav1.GroupVersion}} }

// Leases are the names of the leases that are held while the group's controllers work.
func (g APIGroup) Leases() []string {
	switch g {
	case Native:
		return []string{machinev1.LeaseMachineControllerManager, machinev1.LeaseMachineController}
	case Infrastructure:
		return []string{"infrastructure-capmcm"}
	case Bootstrap:
		return []string{"bootstrap-capmcm"}
	case ControlPlane:
		return []string{"control-plane-capmcm"}
	}
	return nil
}

// APIGroups are all of them.
func APIGroups() []APIGroup { return []APIGroup{Native, Infrastructure, Bootstrap, ControlPlane} }

// APIGroupsOf are the groups of the controllers of these names, in the order of APIGroups.
func APIGroupsOf(names []string) []APIGroup {
	var found []APIGroup
	for _, d := range APIGroups() {
		if slices.ContainsFunc(All(), func(c Controller) bool { return c.Group == d && slices.Contains(names, c.Name) }) {
			found = append(found, d)
		}
	}
	return found
}

// allNames are the names of all controllers, in the order of All.
func allNames() []string {
	var names []string
	for _, c := range All() {
		names = append(names, c.Name)
	}
	return names
}

// Select returns the names of the controllers that asked means: names, -name to
// leave one out, * for those of each group whose kinds are all served. A controller
// that is named although its group lacks a kind is an error, and so is nothing at all.
func Select(asked []string, served func(Kind) bool) ([]string, error) {
	if err := known(asked); err != nil {
		return nil, err
	}
	missing := missingOf(served)
	var selected []string
	for _, c := range All() {
		lacks, named := missing[c.Group], slices.Contains(asked, c.Name)
		switch {
		case slices.Contains(asked, "-"+c.Name) || !named && !slices.Contains(asked, "*"):
		case len(lacks) == 0:
			selected = append(selected, c.Name)
		case named:
			return nil, fmt.Errorf("controller %s needs %s, which the API server does not serve", c.Name,
				strings.Join(lacks, ", "))
		}
	}
	if len(selected) == 0 {
		return nil, closed(asked, missing)
	}
	return selected, nil
}

// missingOf are the kinds that each group lacks.
func missingOf(served func(Kind) bool) map[APIGroup][]string {
	missing := map[APIGroup][]string{}
	for _, d := range APIGroups() {
		for _, k := range d.Needs() {
			if !served(k) {
				missing[d] = append(missing[d], k.String())
			}
		}
	}
	return missing
}

// closed says why no controller is left to run.
func closed(asked []string, missing map[APIGroup][]string) error {
	var why []string
	for _, d := range APIGroups() {
		if len(missing[d]) > 0 {
			why = append(why, fmt.Sprintf("%s lacks %s", d, strings.Join(missing[d], ", ")))
		}
	}
	return fmt.Errorf("no controller is left to run: asked for %s; not served: %s", strings.Join(asked, ", "),
		strings.Join(why, "; "))
}

// known fails on a name that is no controller's.
func known(asked []string) error {
	for _, a := range asked {
		if name := strings.TrimPrefix(a, "-"); a != "*" && !slices.Contains(allNames(), name) {
			return fmt.Errorf("no controller is named %q, use some of %s", name, strings.Join(allNames(), ", "))
		}
	}
	return nil
}
