package kubevirt

import (
	"encoding/json"
	"slices"
	"time"
)

// meta is the part of an object's metadata that the driver works with.
type meta struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	UID         string            `json:"uid,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     *time.Time        `json:"creationTimestamp,omitempty"`
	Deleted     *time.Time        `json:"deletionTimestamp,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
	Owners      []owner           `json:"ownerReferences,omitempty"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// machine is the name of the machine that an object is of; MCM's driver sets the label too.
func (m meta) machine() string { return m.Labels[machineLabel] }

// created is when the object was made.
func (m meta) created() time.Time {
	if m.Created == nil {
		return time.Time{}
	}
	return *m.Created
}

// tags are the labels of an object that are neither the machine's nor its owner's.
func (m meta) tags() map[string]string { return codec.Decode(m.Labels) }

// object is what all objects have, for those whose content does not matter.
type object struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Metadata   meta   `json:"metadata"`
}

// secret is an object with what a VM boots with.
type secret struct {
	object

	Type string            `json:"type,omitempty"`
	Data map[string][]byte `json:"data,omitempty"`
}

// machine is a VirtualMachine as the driver asks for it and reads it.
type machine struct {
	object

	Spec   machineSpec   `json:"spec"`
	Status machineStatus `json:"status,omitzero"`
}

type machineSpec struct {
	Running      *bool        `json:"running,omitempty"` // on VMs that MCM made
	RunStrategy  string       `json:"runStrategy,omitempty"`
	InstanceType *matcher     `json:"instancetype,omitempty"`
	Preference   *matcher     `json:"preference,omitempty"`
	Volumes      []dvTemplate `json:"dataVolumeTemplates,omitempty"`
	Template     template     `json:"template"`
}

type machineStatus struct {
	PrintableStatus string      `json:"printableStatus,omitempty"`
	Created         bool        `json:"created,omitempty"` // an instance exists, which may have ended
	Ready           bool        `json:"ready,omitempty"`
	Conditions      []condition `json:"conditions,omitempty"`

	RunStrategy string          `json:"runStrategy,omitempty"` // since the first instance was made
	Requests    []changeRequest `json:"stateChangeRequests,omitempty"`
}

// changeRequest is something that somebody, or KubeVirt itself, has asked to be done to a VM.
type changeRequest struct {
	Action string `json:"action"`
}

type condition struct {
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"lastTransitionTime"`
}

// conditionOf returns the condition of a kind; the zero value if there is none.
func conditionOf(all []condition, kind string) condition {
	i := slices.IndexFunc(all, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return condition{}
	}
	return all[i]
}

// filled is a DataVolume, as far as CDI is with it.
type filled struct {
	object

	Status struct {
		Phase      string      `json:"phase"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type dvTemplate struct {
	Metadata meta            `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
}

type template struct {
	Metadata meta         `json:"metadata"`
	Spec     instanceSpec `json:"spec"`
}

// instanceSpec is what virt-controller makes an instance of.
type instanceSpec struct {
	Domain           domain        `json:"domain"`
	Architecture     string        `json:"architecture,omitempty"`
	Affinity         *affinity     `json:"affinity,omitempty"`
	EvictionStrategy string        `json:"evictionStrategy,omitempty"`
	GracePeriod      *int64        `json:"terminationGracePeriodSeconds,omitempty"`
	Volumes          []volume      `json:"volumes,omitempty"`
	Networks         []vmNetwork   `json:"networks,omitempty"`
	DNSPolicy        string        `json:"dnsPolicy,omitempty"`
	DNSConfig        *podDNSConfig `json:"dnsConfig,omitempty"`

	TopologySpread []podSpread `json:"topologySpreadConstraints,omitempty"`
}

type domain struct {
	CPU       *vmCPU           `json:"cpu,omitempty"`
	Memory    *vmMemory        `json:"memory,omitempty"`
	Resources *domainResources `json:"resources,omitempty"`
	Devices   vmDevices        `json:"devices"`
}

type vmCPU struct {
	Cores                 int32           `json:"cores,omitempty"`
	Sockets               int32           `json:"sockets,omitempty"`
	Threads               int32           `json:"threads,omitempty"`
	Model                 string          `json:"model,omitempty"`
	Features              json.RawMessage `json:"features,omitempty"`
	DedicatedCPUPlacement *bool           `json:"dedicatedCpuPlacement,omitempty"`
	IsolateEmulatorThread *bool           `json:"isolateEmulatorThread,omitempty"`
	NUMA                  json.RawMessage `json:"numa,omitempty"`
}

type vmMemory struct {
	Hugepages json.RawMessage `json:"hugepages,omitempty"`
	Guest     string          `json:"guest,omitempty"`
}

type vmResources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

// domainResources are those of a VM, where those of claims have less.
type domainResources struct {
	Requests                map[string]string `json:"requests,omitempty"`
	Limits                  map[string]string `json:"limits,omitempty"`
	OvercommitGuestOverhead bool              `json:"overcommitGuestOverhead,omitempty"`
}

type vmDevices struct {
	Disks                      []vmDisk        `json:"disks,omitempty"`
	Interfaces                 []vmInterface   `json:"interfaces,omitempty"`
	GPUs                       []gpu           `json:"gpus,omitempty"`
	RNG                        json.RawMessage `json:"rng,omitempty"`
	BlockMultiQueue            *bool           `json:"blockMultiQueue,omitempty"`
	NetworkInterfaceMultiqueue *bool           `json:"networkInterfaceMultiqueue,omitempty"`
}

type vmDisk struct {
	Name              string          `json:"name"`
	Serial            string          `json:"serial,omitempty"`
	Cache             string          `json:"cache,omitempty"`
	IO                string          `json:"io,omitempty"`
	Tag               string          `json:"tag,omitempty"`
	DedicatedIOThread *bool           `json:"dedicatedIOThread,omitempty"`
	Disk              json.RawMessage `json:"disk,omitempty"`
	LUN               json.RawMessage `json:"lun,omitempty"`
	CDRom             json.RawMessage `json:"cdrom,omitempty"`
	BlockSize         json.RawMessage `json:"blockSize,omitempty"`
}

type vmInterface struct {
	Name       string    `json:"name"`
	Bridge     *struct{} `json:"bridge,omitempty"`
	Masquerade *struct{} `json:"masquerade,omitempty"`
}

type vmNetwork struct {
	Name   string    `json:"name"`
	Pod    *struct{} `json:"pod,omitempty"`
	Multus *multus   `json:"multus,omitempty"`
}

type multus struct {
	NetworkName string `json:"networkName"`
	Default     bool   `json:"default,omitempty"`
}

// volume is a name and the source of a volume; json has one of the sources beside the name.
type volume map[string]json.RawMessage

type affinity struct {
	Node *nodeAffinity `json:"nodeAffinity,omitempty"`
}

type nodeAffinity struct {
	Required *nodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

type nodeSelector struct {
	Terms []nodeTerm `json:"nodeSelectorTerms"`
}

type nodeTerm struct {
	Expressions []requirement `json:"matchExpressions,omitempty"`
}

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

type podDNSConfig struct {
	Nameservers []string        `json:"nameservers,omitempty"`
	Searches    []string        `json:"searches,omitempty"`
	Options     json.RawMessage `json:"options,omitempty"`
}

type podSpread struct {
	MaxSkew           int32         `json:"maxSkew"`
	TopologyKey       string        `json:"topologyKey"`
	WhenUnsatisfiable string        `json:"whenUnsatisfiable"`
	LabelSelector     labelSelector `json:"labelSelector"`
}

type labelSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// instance is a VirtualMachineInstance: a VM while it runs.
type instance struct {
	object

	Status struct {
		Phase      string      `json:"phase"`
		Conditions []condition `json:"conditions"`
		Interfaces []struct {
			Name string   `json:"name"`
			IP   string   `json:"ipAddress"`
			IPs  []string `json:"ipAddresses"`
		} `json:"interfaces"`
	} `json:"status"`
}
