package vsphere

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// The tags that say what belongs to a cluster. Either spelling stands for the
// other.
const (
	clusterTagPrefix = "kubernetes.io/cluster/"
	roleTagPrefix    = "kubernetes.io/role/"
	clusterTag       = "mcm.gardener.cloud/cluster"
	roleTag          = "mcm.gardener.cloud/role"
)

// named returns what tags say in either spelling, e.g. the cluster's name. The
// first of several counts; it is empty if there is none.
func named(tags map[string]string, prefix, key string) string {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if rest, ok := strings.CutPrefix(k, prefix); ok && rest != "" {
			return rest
		}
	}
	return tags[key]
}

// has reports whether tags name that cluster or role, in either spelling.
func has(tags map[string]string, prefix, key, name string) bool {
	_, there := tags[prefix+name]
	return there || tags[key] == name
}

// ownership returns the cluster and the role whose VMs are the class's.
func (s *spec) ownership() (cluster, role string) {
	return named(s.Tags, clusterTagPrefix, clusterTag), named(s.Tags, roleTagPrefix, roleTag)
}

// owns reports whether these tags make a VM one of the class's.
func (s *spec) owns(tags map[string]string) bool {
	cluster, role := s.ownership()
	return cluster != "" && role != "" &&
		has(tags, clusterTagPrefix, clusterTag, cluster) && has(tags, roleTagPrefix, roleTag, role)
}

// validate adds what is wrong with the values of a spec that decoded.
func (s *spec) validate() {
	if cluster, role := s.ownership(); cluster == "" || role == "" {
		s.Problems.Add(cloud.BlocksAll, "tags",
			fmt.Sprintf("lacks the ownership tags; add the keys %s<cluster> and %s<role>, or %s and %s",
				clusterTagPrefix, roleTagPrefix, clusterTag, roleTag))
	}
	s.validateSource()
	s.validatePlaces()
	s.validateTags()
	s.validateSizes()
	s.warn()
}

// warn adds what has no effect.
func (s *spec) warn() {
	s.WarnIf(s.Force, "force",
		"has no effect because left-over files of an unregistered VM are never in the way; remove it")
	_, forged := s.ExtraConfig[markKey]
	s.WarnIf(forged, "extraConfig["+markKey+"]", "is set by the manager and has no effect here; remove it")
	s.WarnIf(s.Snapshot != "" && !s.LinkedClone, "snapshot",
		"has no effect without linkedClone; set linkedClone or remove it")
	s.WarnIf(s.vAppGiven() && len(s.SSHKeys) > 0, "sshKeys",
		"has no effect because vapp is there; put the keys into vapp.properties")
	s.WarnIf(s.vAppGiven() && len(s.VApp.Properties) == 0, "vapp",
		"keeps the user data from the VM although it sets no property, as with MCM; remove it, or add properties")
}

// validateSource adds what is wrong with what is cloned.
func (s *spec) validateSource() {
	if s.LibraryItem == nil {
		if !s.Wrong("libraryItem") {
			s.Require(cloud.BlocksCreate, "templateVM", s.TemplateVM,
				"name the VM or template to clone, as an inventory path, or set libraryItem")
		}
		return
	}
	s.BlockIf(s.TemplateVM != "", "libraryItem", "excludes templateVM; remove one of the two")
	s.Require(cloud.BlocksCreate, "libraryItem.library", s.LibraryItem.Library, "name the content library")
	s.Require(cloud.BlocksCreate, "libraryItem.item", s.LibraryItem.Item, "name the VM template in the content library")
}

// validateTags adds what is wrong with the tags of vSphere.
func (s *spec) validateTags() {
	for i, t := range s.VSphereTags {
		path := fmt.Sprintf("vsphereTags[%d]", i)
		switch {
		case t.ID != "" && t.Category+t.Name != "":
			s.Block(path+".id", "excludes category and name; set the id, or category and name")
		case t.ID == "":
			s.Require(cloud.BlocksCreate, path+".category", t.Category, "set category and name, or the id of the tag")
			s.Require(cloud.BlocksCreate, path+".name", t.Name, "set category and name, or the id of the tag")
		case !strings.HasPrefix(t.ID, tagIDPrefix):
			s.Block(path+".id", "is no id of a tag, which begins with %s; set category and name instead", tagIDPrefix)
		}
	}
}

// vAppGiven reports whether the class sets the vApp properties itself, if only by naming none. Then, as with
// MCM, neither user data nor SSH keys are injected.
func (s *spec) vAppGiven() bool { return s.VApp != nil }

func (s *spec) validateSizes() {
	const least = "is %d and has to be 0, which is the template's, or more"
	s.BlockIf(s.NumCPUs < 0, "numCpus", least, s.NumCPUs)
	s.BlockIf(s.MemoryMB < 0, "memory", least+" MiB", s.MemoryMB)
	s.BlockIf(s.MemoryMB%4 != 0, "memory", "is %d and has to be a multiple of 4 MiB", s.MemoryMB)
	if s.SystemDisk != nil {
		s.BlockIf(s.SystemDisk.SizeGB < 0, "systemDisk.size", least+" GiB", s.SystemDisk.SizeGB)
	}
}

// validatePlaces adds what is wrong with the places of the class.
func (s *spec) validatePlaces() {
	if s.Zone != "" || len(s.Zones) == 0 {
		s.validatePlace("", s)
	}
	s.validateNetworks("", s.AdditionalNetworks)
	known := map[string]bool{s.Zone: true}
	for i, z := range s.Zones {
		path := fmt.Sprintf("zones[%d].", i)
		s.Require(cloud.BlocksCreate, path+"name", z.Name, "name the zone as failureDomain and topology labels do")
		s.BlockIf(z.Name != "" && known[z.Name], path+"name", "is %q, which is the name of another zone; rename one", z.Name)
		known[z.Name] = true
		s.validatePlace(path, z.within(s))
		s.validateNetworks(path, z.AdditionalNetworks)
	}
}

// validateNetworks adds what is wrong with the additional networks below path.
func (s *spec) validateNetworks(path string, nics []nic) {
	for i, n := range nics {
		s.Require(cloud.BlocksCreate, path+nicField(i+1, "network"), n.Network,
			"name the network of this interface, as an inventory path")
	}
	s.BlockIf(1+len(nics) > nicsMax, path+"additionalNetworks",
		"give a VM %d interfaces, and it can have %d; remove some", 1+len(nics), nicsMax)
}

// validatePlace adds what is wrong with a place, whose fields are below path.
func (s *spec) validatePlace(path string, at *spec) {
	s.BlockIf(strings.TrimSpace(at.Network) == "" && !s.Wrong("network") && !s.Wrong(path+"network"), path+"network",
		"is missing; name the network of the first interface, as an inventory path")
	s.requireOne(path, []string{"datastore", "datastoreCluster"}, at.Datastore, at.DatastoreCluster)
	s.requireOne(path, []string{"computeCluster", "resourcePool", "hostSystem"}, at.ComputeCluster, at.ResourcePool,
		at.HostSystem)
	s.WarnIf(at.ComputeCluster != "" && at.Datastore != "" && at.DatastoreCluster == "", path+"datastore",
		"has no effect while DRS of the compute cluster recommends one; name resourcePool or hostSystem instead of "+
			"computeCluster to choose it")
}

// requireOne adds a problem with the first field below path when all of the fields
// are empty.
func (s *spec) requireOne(path string, fields []string, values ...string) {
	wrong := func(field string) bool { return s.Wrong(field) || s.Wrong(path+field) }
	s.BlockIf(strings.TrimSpace(strings.Join(values, "")) == "" && !slices.ContainsFunc(fields, wrong), path+fields[0],
		"is missing; set one of %s", strings.Join(fields, ", "))
}
