package kubevirt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// The names of disks that MCM's driver gives.
const (
	rootDisk      = "root-disk"
	cloudInitDisk = "cloudinitdisk"
)

// The defaults of the provider spec.
const (
	runAlways       = "Always"
	runOnFailure    = "RerunOnFailure"
	runOnce         = "Once"
	clusterTypeKind = "VirtualMachineClusterInstancetype"
	typeKind        = "VirtualMachineInstancetype"
)

// liveMigrate is the evictionStrategy of VMs that move to another node, or stay.
const liveMigrate = "LiveMigrate"

// The ways in which an interface is connected to the network of pods.
const (
	bindBridge     = "bridge"
	bindMasquerade = "masquerade"
)

// quantity is the form of Kubernetes' quantities.
var quantity = regexp.MustCompile(`\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?`)

// nonZero finds a digit of a quantity that makes it more than nothing.
var nonZero = regexp.MustCompile(`^[^a-zA-Z]*[1-9]`)

// validate adds what is wrong with the values of a spec that decoded, and then writes out its
// defaults.
func (s *spec) validate() {
	s.Require(cloud.BlocksCreate, "region", s.Region, "name the region of the nodes that run the VMs, or default")
	s.Require(cloud.BlocksCreate, "zone", s.Zone, "name the zone of the nodes that run the VMs, or default")
	s.validateSize()
	s.validateVolume("rootVolume", &s.RootVolume)
	s.validateVolumes()
	s.validateDisks()
	s.validateNetworks()
	s.validateTags()
	s.OneOf("architecture", s.Architecture, "amd64", "arm64", "s390x")
	s.OneOf("runStrategy", s.RunStrategy, runAlways, runOnFailure, runOnce) // nothing here starts one of Manual
	s.OneOf("evictionStrategy", s.EvictionStrategy, "None", liveMigrate, "LiveMigrateIfPossible", "External")
	s.WarnIf(s.EvictionStrategy == "External", "evictionStrategy",
		"is External, which lets evictions of the VM's pod wait for a controller that watches status.evacuationNodeName, "+
			"and there is none here; run one, or write LiveMigrate or None")
	s.RunStrategy = cmp.Or(s.RunStrategy, runAlways)
}

func (s *spec) validateSize() {
	if m := s.InstanceType; m != nil {
		s.Require(cloud.BlocksCreate, "instancetype.name", m.Name, "name an instance type")
		s.OneOf("instancetype.kind", m.Kind, clusterTypeKind, typeKind)
		m.Kind = cmp.Or(m.Kind, clusterTypeKind)
		s.BlockIf(s.CPU != nil, "cpu", "is set besides instancetype, which says it; remove one of them")
		s.BlockIf(s.Memory != nil, "memory", "is set besides instancetype, which says it; remove one of them")
		for path, all := range map[string]map[string]string{
			"resources.requests.": s.Resources.Requests, "resources.limits.": s.Resources.Limits,
		} {
			for _, name := range []string{"cpu", "memory"} {
				s.BlockIf(all[name] != "", path+name, "is set besides instancetype, which says it; remove one of them")
			}
		}
		s.WarnIf(len(s.Devices.GPUs) > 0, "devices.gpus",
			"is set besides instancetype, and KubeVirt refuses that if the type has GPUs; remove one of them then")
	} else {
		for _, name := range []string{"cpu", "memory"} {
			s.positive("resources.requests."+name, s.Resources.Requests[name])
		}
	}
	if m := s.Preference; m != nil {
		s.Require(cloud.BlocksCreate, "preference.name", m.Name, "name a preference")
		s.OneOf("preference.kind", m.Kind, "VirtualMachineClusterPreference", "VirtualMachinePreference")
		m.Kind = cmp.Or(m.Kind, "VirtualMachineClusterPreference")
	}
	for path, all := range map[string]map[string]string{
		"resources.requests": s.Resources.Requests, "resources.limits": s.Resources.Limits,
	} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			s.BlockIf(all[name] != "" && !matches(quantity, all[name]), path+"."+name,
				"is %q and has to be a quantity, e.g. 4Gi", all[name])
		}
	}
	for i, g := range s.Devices.GPUs {
		path := fmt.Sprintf("devices.gpus[%d].", i)
		s.Require(cloud.BlocksCreate, path+"name", g.Name, "name the GPU")
		s.Require(cloud.BlocksCreate, path+"deviceName", g.DeviceName, "name the resource of the nodes that it is")
	}
}

// positive adds a problem unless a quantity is there and more than nothing.
func (s *spec) positive(path, value string) {
	if !s.Wrong(path) && !nonZero.MatchString(value) {
		s.Block(path, "is %q and has to be more than 0; write a quantity, e.g. 2 or 4Gi", value)
	}
}

// validateVolume checks the spec of a volume that CDI fills.
func (s *spec) validateVolume(path string, v *dataVolume) {
	if v.PVC != nil && v.Storage != nil {
		s.Block(path+".storage", "is set besides pvc; remove one of them")
		return
	}
	size := func(c *claim) string {
		if c == nil {
			return ""
		}
		return c.Resources.Requests["storage"]
	}
	if v.Storage != nil {
		s.positive(path+".storage.resources.requests.storage", size(v.Storage))
		return
	}
	s.positive(path+".pvc.resources.requests.storage", size(v.PVC))
}

func (s *spec) validateVolumes() {
	var names []string
	for i := range s.AdditionalVolumes {
		v := &s.AdditionalVolumes[i]
		path := fmt.Sprintf("additionalVolumes[%d]", i)
		s.Require(cloud.BlocksCreate, path+".name", v.Name, "name the volume")
		names = append(names, v.Name)
		switch {
		case v.DataVolume != nil && v.VolumeSource != nil:
			s.Block(path+".volumeSource", "is set besides dataVolume; remove one of them")
		case v.DataVolume != nil:
			s.validateVolume(path+".dataVolume", v.DataVolume)
		case v.VolumeSource == nil:
			s.Block(path, "has neither dataVolume nor volumeSource; add one of them")
		default:
			var source map[string]json.RawMessage
			s.BlockIf(json.Unmarshal(v.VolumeSource, &source) != nil || len(source) == 0, path+".volumeSource",
				"is empty or no object; write the source of a volume")
		}
	}
	s.Distinct("additionalVolumes", "name", names, "name each volume once")
}

// validateDisks checks how volumes are shown to the guest.
func (s *spec) validateDisks() {
	known := []string{rootDisk}
	for _, v := range s.AdditionalVolumes {
		known = append(known, v.Name)
	}
	var names []string
	for i, d := range s.Devices.Disks {
		path := fmt.Sprintf("devices.disks[%d].", i)
		names = append(names, d.Name)
		s.BlockIf(d.BootOrder != nil, path+"bootOrder", "is set, and the VM boots from %s; remove it", rootDisk)
		s.BlockIf(!slices.Contains(known, d.Name), path+"name", "is %q and has to be %s or the name of a volume", d.Name,
			rootDisk)
	}
	s.Distinct("devices.disks", "name", names, "describe each volume once")
}

func (s *spec) validateNetworks() {
	var names []string
	defaults := 0
	for i, n := range s.Networks {
		s.Require(cloud.BlocksCreate, fmt.Sprintf("networks[%d].name", i), n.Name, "name the network, e.g. default/net")
		names = append(names, n.Name)
		if n.Default {
			defaults++
		}
	}
	s.Distinct("networks", "name", names, "name each network once")
	s.BlockIf(defaults > 1, "networks", "has %d networks that are default and may have one", defaults)
	s.OneOf("podNetworkBinding", s.PodNetworkBinding, bindBridge, bindMasquerade)
	s.WarnIf(s.PodNetworkBinding != "" && s.hasDefaultNetwork(), "podNetworkBinding",
		"has no effect, since a network of the class is default and takes the place of that of pods; remove it")
	s.OneOf("dnsPolicy", s.DNSPolicy, "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
	if s.DNSPolicy == "None" && (s.DNSConfig == nil || len(s.DNSConfig.Nameservers) == 0) && !s.Wrong("dnsConfig") {
		s.Block("dnsConfig.nameservers", "is empty and dnsPolicy is None; name a nameserver")
	}
}

func (s *spec) validateTags() {
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		for _, message := range wrongLabel(key, s.Tags[key]) {
			s.Problems.Add(cloud.BlocksAll, "tags["+key+"]", message)
		}
	}
	delete(s.Tags, machineLabel)
	var named bool
	s.owns, named = owned(s.Tags)
	switch {
	case s.Wrong("tags"):
	case len(s.Tags) == 0:
		s.Problems.Add(cloud.BlocksAll, "tags", fmt.Sprintf(
			"is empty, so that all VMs of the namespace would be the class's; add %s and %s", clusterLabel, roleLabel))
	case !named:
		s.Warn("tags", "lacks %s or %s, so that VMs are the class's only while they have all of its tags; add both",
			clusterLabel, roleLabel)
	}
}

// wrongLabel returns what Kubernetes does not take about a label.
func wrongLabel(key, value string) []string {
	var found []string
	if !matches(labelKey, key) {
		found = append(found, "has a key that is none of a label of Kubernetes; write one such as example.com/name")
	}
	if len(value) > tagLimits.ValueMax || !matches(labelValue, value) {
		found = append(found, fmt.Sprintf("has the value %q, and a label's has at most %d letters, digits, dots, dashes and "+
			"underscores, the first and last of which are a letter or digit", value, tagLimits.ValueMax))
	}
	return found
}

// wrongTags are the problems of a request's tags that are no labels.
func wrongTags(tags map[string]string) []cloud.Problem {
	var problems []cloud.Problem
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		for _, message := range wrongLabel(key, tags[key]) {
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksCreate, Field: "tags[" + key + "]", Message: message,
			})
		}
	}
	return problems
}

// userTags are the tags of a class that may change while its VMs exist.
func (s *spec) userTags() map[string]string { return codec.UserTags(s.Tags, s.ownerKeys()...) }

var _ driverkit.Checked = (*spec)(nil)
