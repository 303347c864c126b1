package kubevirt

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// spec is a decoded provider spec. Nothing modifies it once Parse has returned.
type spec struct {
	APIVersion json.RawMessage `json:"apiVersion"` // it says nothing
	Kind       json.RawMessage `json:"kind"`

	Region            string             `json:"region"`
	Zone              string             `json:"zone"`
	Zones             []string           `json:"zones"` // ours; further zones that VMs may be asked for in
	Resources         vmSize             `json:"resources"`
	Devices           devices            `json:"devices"`
	RootVolume        dataVolume         `json:"rootVolume"`
	AdditionalVolumes []additionalVolume `json:"additionalVolumes"`
	SSHKeys           []string           `json:"sshKeys"`
	Networks          []network          `json:"networks"`
	CPU               *cpu               `json:"cpu"`
	Memory            *memory            `json:"memory"`
	DNSPolicy         string             `json:"dnsPolicy"`
	DNSConfig         *dnsConfig         `json:"dnsConfig"`
	Tags              map[string]string  `json:"tags"`

	// The fields below are ours; Kubermatic's providers have most of them.
	InstanceType      *matcher `json:"instancetype"`
	Preference        *matcher `json:"preference"`
	Architecture      string   `json:"architecture"`
	RunStrategy       string   `json:"runStrategy"`
	EvictionStrategy  string   `json:"evictionStrategy"`
	PodNetworkBinding string   `json:"podNetworkBinding"`

	TopologySpread []spread `json:"topologySpreadConstraints"`

	owns map[string]string // tags that name the cluster and the role

	driverkit.Checks
}

// vmSize is what a VM asks for, as Kubernetes' quantities: texts or numbers.
type vmSize struct {
	Requests                map[string]string `json:"requests"`
	Limits                  map[string]string `json:"limits"`
	OvercommitGuestOverhead bool              `json:"overcommitGuestOverhead"`
}

// resources are what a claim asks for, as Kubernetes' quantities: texts or numbers.
type resources struct {
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

type devices struct {
	Disks                      []disk          `json:"disks"`
	RNG                        json.RawMessage `json:"rng"`
	BlockMultiQueue            *bool           `json:"blockMultiQueue"`
	NetworkInterfaceMultiqueue *bool           `json:"networkInterfaceMultiqueue"`
	GPUs                       []gpu           `json:"gpus"` // ours
}

type gpu struct {
	Name       string `json:"name"`
	DeviceName string `json:"deviceName"`
}

// disk says how the guest sees a volume.
type disk struct {
	Name              string          `json:"name"`
	BootOrder         *int32          `json:"bootOrder"`
	Serial            string          `json:"serial"`
	Cache             string          `json:"cache"`
	IO                string          `json:"io"`
	Tag               string          `json:"tag"`
	DedicatedIOThread *bool           `json:"dedicatedIOThread"`
	Disk              json.RawMessage `json:"disk"`
	LUN               json.RawMessage `json:"lun"`
	CDRom             json.RawMessage `json:"cdrom"`
	BlockSize         json.RawMessage `json:"blockSize"`
}

// dataVolume is the spec of a volume that CDI fills.
type dataVolume struct {
	Source            json.RawMessage `json:"source"`
	SourceRef         json.RawMessage `json:"sourceRef"`
	PVC               *claim          `json:"pvc"`
	Storage           *claim          `json:"storage"`
	ContentType       string          `json:"contentType"`
	PriorityClassName string          `json:"priorityClassName"`
	Preallocation     *bool           `json:"preallocation"`
}

type claim struct {
	AccessModes      []string        `json:"accessModes"`
	Resources        resources       `json:"resources"`
	StorageClassName *string         `json:"storageClassName"`
	VolumeMode       string          `json:"volumeMode"`
	VolumeName       string          `json:"volumeName"`
	Selector         json.RawMessage `json:"selector"`
	DataSource       json.RawMessage `json:"dataSource"`
}

type additionalVolume struct {
	Name         string          `json:"name"`
	DataVolume   *dataVolume     `json:"dataVolume"`
	VolumeSource json.RawMessage `json:"volumeSource"`
}

type network struct {
	Name    string `json:"name"`
	Default bool   `json:"default"`
}

type cpu struct {
	Cores                 int32           `json:"cores"`
	Sockets               int32           `json:"sockets"`
	Threads               int32           `json:"threads"`
	Model                 string          `json:"model"`
	Features              json.RawMessage `json:"features"`
	DedicatedCPUPlacement *bool           `json:"dedicatedCpuPlacement"`
	IsolateEmulatorThread *bool           `json:"isolateEmulatorThread"`
	NUMA                  json.RawMessage `json:"numa"`
}

type memory struct {
	Hugepages json.RawMessage `json:"hugepages"`
	Guest     string          `json:"guest"`
}

type dnsConfig struct {
	Nameservers []string        `json:"nameservers"`
	Searches    []string        `json:"searches"`
	Options     json.RawMessage `json:"options"`
}

// matcher names an instance type or a preference.
type matcher struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type spread struct {
	MaxSkew           int32  `json:"maxSkew"`
	TopologyKey       string `json:"topologyKey"`
	WhenUnsatisfiable string `json:"whenUnsatisfiable"`
}

// decode decodes a provider spec as MCM's driver does.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(quantities(raw), s, lenient.Options{
		Severity: severityOf, Hint: "region, zone, resources, rootVolume and tags",
	})
	s.APIVersion, s.Kind = nil, nil // classes that mean the same are equal
	return s
}

// quantities returns a provider spec in which quantities that are numbers are texts, as in
// Kubernetes' own objects both are allowed.
func quantities(raw json.RawMessage) json.RawMessage {
	var all any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return raw
	}
	spell(all, false)
	text, err := json.Marshal(all)
	if err != nil {
		return raw
	}
	return text
}

// spell turns the numbers below requests, limits and guest into texts.
func spell(value any, quantity bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			known := strings.ToLower(key)
			if n, number := below.(json.Number); number && (quantity || known == "guest") {
				v[key] = n.String()
				continue
			}
			spell(below, known == "requests" || known == "limits")
		}
	case []any:
		for _, below := range v {
			spell(below, false)
		}
	}
}

// severityOf returns which calls a field of a wrong type rules out.
func severityOf(path string) cloud.Severity {
	if strings.EqualFold(path, "tags") || strings.HasPrefix(strings.ToLower(path), "tags.") {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// owned returns the tags that name the owner of a class's VMs: the cluster and the role, or all
// tags of a class that names neither. MCM's driver goes by all of them.
func owned(tags map[string]string) (mine map[string]string, named bool) {
	mine = map[string]string{}
	cluster := func(key string) bool { return key == clusterLabel || driverkit.Contains(clusterMark)(key) }
	role := func(key string) bool { return key == roleLabel || driverkit.Contains(roleMark)(key) }
	for _, key := range driverkit.Ownership(tags, cluster, role) {
		mine[key] = tags[key]
	}
	if len(mine) == 0 {
		return maps.Clone(tags), false
	}
	return mine, true
}

// carries reports whether labels have the tags that name the owner of a class's VMs, with their
// values.
func (s *spec) carries(labels map[string]string) bool {
	for key, value := range s.owns {
		if labels[key] != value {
			return false
		}
	}
	return len(s.owns) > 0
}

// ours reports whether an object is provably of r.
func (s *spec) ours(m meta, r cloud.Ref) bool {
	return s.carries(m.Labels) && driverkit.IsOf(r, m.Labels[ownerLabel], m.machine())
}

// instanceType is the name of the class's instance type; empty if it lists its resources itself.
func (s *spec) instanceType() string {
	if s.InstanceType == nil {
		return ""
	}
	return s.InstanceType.Name
}

// zoneFor returns the zone of a new VM.
func (s *spec) zoneFor(r cloud.CreateRequest) string {
	if r.Zone != "" {
		return r.Zone
	}
	return s.Zone
}

// offering is what a new VM needs room for.
func (s *spec) offering(r cloud.CreateRequest) cloud.Offering {
	return cloud.Offering{Zone: s.zoneFor(r), InstanceType: s.instanceType()}
}

// ownerKeys are the keys of owns, sorted.
func (s *spec) ownerKeys() []string { return slices.Sorted(maps.Keys(s.owns)) }
