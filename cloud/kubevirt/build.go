package kubevirt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// anyPlace is the region and the zone of a cluster whose nodes have no labels of places: MCM's
// driver asks for nodes without the label then.
const anyPlace = "default"

// gracePeriod is how many seconds a guest has to shut down, as with MCM's driver.
const gracePeriod = 30

// networkData lets the guest configure its first interfaces by DHCP.
const networkData = "version: 2\nethernets:\n  interfaces:\n    match:\n      name: e*\n    dhcp4: true\n"

// secretName is the name of the Secret of one attempt at a VM. Another attempt has other user data.
func secretName(r cloud.CreateRequest) string {
	const digits = 10
	sum := sha256.Sum256([]byte(r.OwnerID + " " + r.Token))
	return "userdata-" + r.Name + "-" + hex.EncodeToString(sum[:])[:digits]
}

// labelsFor returns the labels of all that is made for r, and what about them does not fit.
func (s *spec) labelsFor(r cloud.CreateRequest) (map[string]string, []cloud.Problem) {
	own := map[string]string{machineLabel: r.Name, ownerLabel: r.OwnerID}
	return driverkit.MergeTags(r.Tags, s.Tags, own), append(wrongTags(r.Tags), wrongTags(own)...)
}

// userDataFor is what the VM of r boots with. Keys for SSH are added as MCM's driver does.
func (s *spec) userDataFor(r cloud.CreateRequest) []byte {
	if len(s.SSHKeys) == 0 {
		return r.UserData
	}
	var b strings.Builder
	b.Write(r.UserData)
	b.WriteString("\nssh_authorized_keys:\n")
	for _, key := range s.SSHKeys {
		fmt.Fprintf(&b, "- %s\n", strings.TrimSpace(key))
	}
	return []byte(b.String())
}

// secretFor is the Secret that the VM of r boots from.
func (s *spec) secretFor(r cloud.CreateRequest, labels map[string]string) secret {
	return secret{
		object: object{
			APIVersion: "v1", Kind: "Secret", Metadata: meta{Name: secretName(r), Labels: labels},
		},
		Type: "Opaque", Data: map[string][]byte{"userdata": s.userDataFor(r)},
	}
}

// machineFor is the VM of r.
func (s *spec) machineFor(r cloud.CreateRequest, labels map[string]string) machine {
	grace := int64(gracePeriod)
	interfaces, networks := s.networking()
	disks, volumes, templates := s.storage(r, labels)
	m := machine{
		object: object{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Metadata: meta{Name: r.Name, Labels: labels}},
		Spec: machineSpec{
			RunStrategy: s.RunStrategy, InstanceType: s.InstanceType, Preference: s.Preference, Volumes: templates,
			Template: template{Metadata: s.instanceMeta(labels), Spec: instanceSpec{
				Domain: s.domain(), Architecture: s.Architecture, Affinity: s.affinity(s.zoneFor(r)),
				EvictionStrategy: s.EvictionStrategy, GracePeriod: &grace, Volumes: volumes, Networks: networks,
				DNSPolicy: s.DNSPolicy, DNSConfig: (*podDNSConfig)(s.DNSConfig), TopologySpread: s.spread(),
			}},
		},
	}
	devices := &m.Spec.Template.Spec.Domain.Devices
	devices.Disks, devices.Interfaces = disks, interfaces
	return m
}

// instanceMeta is the metadata of the instances of a VM with these labels, and of the pods that they run in. Load
// balancers of the target cluster select its workers by the labels of Cluster API, which the class may set itself.
func (s *spec) instanceMeta(labels map[string]string) meta {
	role := "worker"
	if s.Tags[roleLabel] == controlPlane || s.Tags[roleMark+controlPlane] != "" {
		role = controlPlane
	}
	m := meta{Labels: map[string]string{nodeRoleLabel: role}}
	if name := s.cluster(); name != "" {
		m.Labels[clusterNameLabel] = name
	}
	maps.Copy(m.Labels, labels)
	if s.EvictionStrategy == liveMigrate && s.PodNetworkBinding != bindMasquerade && !s.hasDefaultNetwork() {
		m.Annotations = map[string]string{bridgeMigrates: "true"}
	}
	return m
}

// cluster is the name of the target cluster, as the class's tags say it; empty if they do not.
func (s *spec) cluster() string {
	name := s.Tags[clusterLabel]
	for _, key := range s.ownerKeys() {
		if _, named, found := strings.Cut(key, clusterMark); found && name == "" {
			name = named
		}
	}
	return name
}

// domain is the hardware of a VM without its disks and interfaces.
func (s *spec) domain() domain {
	d := domain{
		CPU: (*vmCPU)(s.CPU), Memory: (*vmMemory)(s.Memory),
		Devices: vmDevices{
			GPUs: s.Devices.GPUs, RNG: s.Devices.RNG, BlockMultiQueue: s.Devices.BlockMultiQueue,
			NetworkInterfaceMultiqueue: s.Devices.NetworkInterfaceMultiqueue,
		},
	}
	if len(s.Resources.Requests)+len(s.Resources.Limits) > 0 || s.Resources.OvercommitGuestOverhead {
		d.Resources = (*domainResources)(&s.Resources)
	}
	return d
}

// affinity keeps a VM on nodes of the class's region, in a zone.
func (s *spec) affinity(zone string) *affinity {
	var wanted []requirement
	for key, value := range map[string]string{regionLabel: s.Region, zoneLabel: zone} {
		if value == anyPlace {
			wanted = append(wanted, requirement{Key: key, Operator: "DoesNotExist"})
			continue
		}
		wanted = append(wanted, requirement{Key: key, Operator: "In", Values: []string{value}})
	}
	if wanted[0].Key != regionLabel { // the same request is the same bytes
		wanted[0], wanted[1] = wanted[1], wanted[0]
	}
	return &affinity{Node: &nodeAffinity{Required: &nodeSelector{Terms: []nodeTerm{{Expressions: wanted}}}}}
}

// networking returns the interfaces of a VM, and the networks that they are in: those of the class,
// and that of pods unless one of the class's is the default. A class that says nothing about networks has neither:
// KubeVirt adds the network of pods then, by the binding that its administrator has chosen.
func (s *spec) networking() ([]vmInterface, []vmNetwork) {
	if len(s.Networks) == 0 && s.PodNetworkBinding == "" {
		return nil, nil
	}
	var interfaces []vmInterface
	var networks []vmNetwork
	add := func(n vmNetwork, i vmInterface) {
		i.Name = n.Name
		interfaces, networks = append(interfaces, i), append(networks, n)
	}
	bridge := vmInterface{Bridge: &struct{}{}}
	switch {
	case s.hasDefaultNetwork():
	case s.PodNetworkBinding == bindMasquerade:
		add(vmNetwork{Name: "default", Pod: &struct{}{}}, vmInterface{Masquerade: &struct{}{}})
	default:
		add(vmNetwork{Name: "default", Pod: &struct{}{}}, bridge)
	}
	for i, n := range s.Networks {
		add(vmNetwork{Name: fmt.Sprintf("net%d", i), Multus: &multus{NetworkName: n.Name, Default: n.Default}}, bridge)
	}
	return interfaces, networks
}

// hasDefaultNetwork reports whether a network of the class takes the place of that of pods.
func (s *spec) hasDefaultNetwork() bool {
	return slices.ContainsFunc(s.Networks, func(n network) bool { return n.Default })
}

// storage returns the disks of a VM, their volumes, and what CDI makes of them.
func (s *spec) storage(r cloud.CreateRequest, labels map[string]string) ([]vmDisk, []volume, []dvTemplate) {
	var disks []vmDisk
	var volumes []volume
	var templates []dvTemplate
	add := func(disk, described, claim string, v dataVolume) {
		disks = append(disks, s.disk(disk, described))
		volumes = append(volumes, sourced(disk, "dataVolume", map[string]string{"name": claim}))
		templates = append(templates, dvTemplate{Metadata: meta{Name: claim, Labels: labels}, Spec: v.wire()})
	}
	add(rootDisk, rootDisk, r.Name, s.RootVolume)
	disks = append(disks, s.disk(cloudInitDisk, ""))
	volumes = append(volumes, s.bootVolume(r))
	for i, v := range s.AdditionalVolumes {
		name := fmt.Sprintf("disk%d", i)
		if v.DataVolume != nil {
			add(name, v.Name, fmt.Sprintf("%s-%d", r.Name, i), *v.DataVolume)
			continue
		}
		disks = append(disks, s.disk(name, v.Name))
		volumes = append(volumes, attached(name, v.VolumeSource))
	}
	return disks, volumes, templates
}

// bootVolume is the volume with the user data, in the format that MCM's driver has, but for Ignition,
// which reads that since its version 2.24 only. As with MCM's driver, cloud-init is told about the guest's network only
// where the class says which interfaces there are.
func (s *spec) bootVolume(r cloud.CreateRequest) volume {
	source := map[string]any{"secretRef": map[string]string{"name": secretName(r)}}
	if cloud.IgnitionVersion(r.UserData) != "" {
		return sourced(cloudInitDisk, "cloudInitConfigDrive", source)
	}
	if interfaces, _ := s.networking(); len(interfaces) > 0 {
		source["networkData"] = networkData
	}
	return sourced(cloudInitDisk, "cloudInitNoCloud", source)
}

// disk is the disk of a volume, as the class describes it under another name.
func (s *spec) disk(name, described string) vmDisk {
	virtio := json.RawMessage(`{"bus":"virtio"}`)
	for _, d := range s.Devices.Disks {
		if d.Name != described || described == "" {
			continue
		}
		found := vmDisk{
			Name: name, Serial: d.Serial, Cache: d.Cache, IO: d.IO, Tag: d.Tag, DedicatedIOThread: d.DedicatedIOThread,
			Disk: d.Disk, LUN: d.LUN, CDRom: d.CDRom, BlockSize: d.BlockSize,
		}
		if d.Disk == nil && d.LUN == nil && d.CDRom == nil {
			found.Disk = virtio
		}
		return found
	}
	return vmDisk{Name: name, Disk: virtio}
}

// sourced is a volume with one source.
func sourced(name, kind string, source any) volume {
	return volume{"name": encoded(name), kind: encoded(source)}
}

// attached is a volume with a source as the class writes it.
func attached(name string, source json.RawMessage) volume {
	v := volume{}
	_ = json.Unmarshal(source, &v) // Parse has checked that it is an object
	v["name"] = encoded(name)
	return v
}

// wire is the spec of a volume that CDI fills, without what the class leaves out.
func (v dataVolume) wire() json.RawMessage {
	return encoded(dvSpec{
		Source: v.Source, SourceRef: v.SourceRef, PVC: v.PVC.wire(), Storage: v.Storage.wire(), ContentType: v.ContentType,
		PriorityClassName: v.PriorityClassName, Preallocation: v.Preallocation,
	})
}

type dvSpec struct {
	Source            json.RawMessage `json:"source,omitempty"`
	SourceRef         json.RawMessage `json:"sourceRef,omitempty"`
	PVC               *dvClaim        `json:"pvc,omitempty"`
	Storage           *dvClaim        `json:"storage,omitempty"`
	ContentType       string          `json:"contentType,omitempty"`
	PriorityClassName string          `json:"priorityClassName,omitempty"`
	Preallocation     *bool           `json:"preallocation,omitempty"`
}

type dvClaim struct {
	AccessModes      []string        `json:"accessModes,omitempty"`
	Resources        vmResources     `json:"resources"`
	StorageClassName *string         `json:"storageClassName,omitempty"`
	VolumeMode       string          `json:"volumeMode,omitempty"`
	VolumeName       string          `json:"volumeName,omitempty"`
	Selector         json.RawMessage `json:"selector,omitempty"`
	DataSource       json.RawMessage `json:"dataSource,omitempty"`
}

func (c *claim) wire() *dvClaim {
	if c == nil {
		return nil
	}
	return &dvClaim{
		AccessModes: c.AccessModes, Resources: vmResources(c.Resources), StorageClassName: c.StorageClassName,
		VolumeMode: c.VolumeMode, VolumeName: c.VolumeName, Selector: c.Selector, DataSource: c.DataSource,
	}
}

// spread keeps VMs of a class apart.
func (s *spec) spread() []podSpread {
	var all []podSpread
	for _, t := range s.TopologySpread {
		all = append(all, podSpread{t.MaxSkew, t.TopologyKey, t.WhenUnsatisfiable, labelSelector{s.owns}})
	}
	return all
}

// encoded is a value as JSON. It is of the driver's own types, which can always be written.
func encoded(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
