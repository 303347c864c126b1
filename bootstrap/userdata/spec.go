package userdata

// The kind that Decode reads.
const (
	Group      = "userdata.mcm.cluster.x-k8s.io"
	APIVersion = Group + "/v1alpha1"
	Kind       = "MachineUserData"
)

// MachineUserData describes what a machine of a pool becomes when it boots. docs/userdata.md explains
// each field.
type MachineUserData struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`

	masked bool // Masked made it
}

// Metadata names the spec for people; the output does not depend on it.
type Metadata struct {
	Name string `json:"name,omitempty"`
}

// Spec is what the output is made from, and nothing else is.
type Spec struct {
	GeneratorVersion  string           `json:"generatorVersion,omitempty"`
	OperatingSystem   OperatingSystem  `json:"operatingSystem"`
	Architecture      string           `json:"architecture,omitempty"`
	KubernetesVersion string           `json:"kubernetesVersion"`
	Cluster           Cluster          `json:"cluster"`
	Node              Node             `json:"node"`
	ContainerRuntime  ContainerRuntime `json:"containerRuntime"`
	Artifacts         Artifacts        `json:"artifacts"`
	Kubelet           Kubelet          `json:"kubelet"`
	Proxy             *Proxy           `json:"proxy,omitempty"`
	NTP               NTP              `json:"ntp"`
	SSH               SSH              `json:"ssh"`
	System            System           `json:"system"`
	Files             []File           `json:"files,omitempty"`
	Units             []Unit           `json:"units,omitempty"`
	Commands          []Command        `json:"commands,omitempty"`
}

// OperatingSystem is that of the image that the MachineClass names.
type OperatingSystem struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Packages Packages `json:"packages"`
}

// Packages are those of the operating system's own repositories.
type Packages struct {
	Base  string   `json:"base,omitempty"`
	Extra []string `json:"extra,omitempty"`
}

// Cluster is the one that the node joins.
type Cluster struct {
	Endpoint      string   `json:"endpoint"`
	CACertificate string   `json:"caCertificate"`
	DNSDomain     string   `json:"dnsDomain,omitempty"`
	DNSServiceIPs []string `json:"dnsServiceIPs"`
}

// Node is how the kubelet registers.
type Node struct {
	NameFrom      string            `json:"nameFrom,omitempty"`
	IPFamily      string            `json:"ipFamily,omitempty"`
	CloudProvider string            `json:"cloudProvider,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []Taint           `json:"taints,omitempty"`
}

// Taint is one that the Node has from its first moment.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// ContainerRuntime is containerd 2.
type ContainerRuntime struct {
	Version      string       `json:"version"`
	SandboxImage string       `json:"sandboxImage,omitempty"`
	Mirrors      []Mirror     `json:"mirrors,omitempty"`
	Credentials  []Credential `json:"credentials,omitempty"`
}

// Mirror is where the images of a registry come from. Registry "_default" means all without one.
type Mirror struct {
	Registry  string     `json:"registry"`
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is one server of a mirror.
type Endpoint struct {
	URL           string `json:"url"`
	CACertificate string `json:"caCertificate,omitempty"`
	OverridePath  bool   `json:"overridePath,omitempty"`
	SkipVerify    bool   `json:"skipVerify,omitempty"`
}

// Credential is what containerd shows a registry. Its password is a secret.
type Credential struct {
	Registry string `json:"registry"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// Artifacts are the programs of a node: downloaded, or in the image already.
type Artifacts struct {
	BaseURL      string        `json:"baseURL,omitempty"`
	Kubelet      Artifact      `json:"kubelet"`
	Containerd   Artifact      `json:"containerd"`
	Runc         Artifact      `json:"runc"`
	CNIPlugins   Artifact      `json:"cniPlugins"`
	Preinstalled *Preinstalled `json:"preinstalled,omitempty"`
}

// Artifact is one download. The versions of kubelet and containerd stand elsewhere in the spec.
type Artifact struct {
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	URL     string `json:"url,omitempty"`
}

// Preinstalled is where an image has the programs: the kubelet in Directory, containerd, too, unless it has a
// directory of its own.
type Preinstalled struct {
	Directory           string `json:"directory,omitempty"`
	ContainerdDirectory string `json:"containerdDirectory,omitempty"`
	CNIDirectory        string `json:"cniDirectory,omitempty"`
}

// Kubelet has a part of a KubeletConfiguration, kubelet.config.k8s.io/v1beta1.
type Kubelet struct {
	Configuration map[string]any `json:"configuration,omitempty"`
}

// Proxy is for downloads, packages, containerd and the kubelet.
type Proxy struct {
	HTTP    string   `json:"http,omitempty"`
	HTTPS   string   `json:"https,omitempty"`
	NoProxy []string `json:"noProxy,omitempty"`
}

// NTP has the servers of the time; without any, those of the image stay.
type NTP struct {
	Servers []string `json:"servers,omitempty"`
}

// SSH has the keys of the image's default user.
type SSH struct {
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
}

// System is about the operating system.
type System struct {
	Swap          string            `json:"swap,omitempty"`
	Sysctls       map[string]string `json:"sysctls,omitempty"`
	KernelModules []string          `json:"kernelModules,omitempty"`
	Updates       string            `json:"updates,omitempty"`
	FIPS          string            `json:"fips,omitempty"`
}

// File is written before anything else runs.
type File struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Encoding    string `json:"encoding,omitempty"`
	Permissions string `json:"permissions,omitempty"`
	Secret      bool   `json:"secret,omitempty"`
}

// Unit is one of systemd.
type Unit struct {
	Name    string   `json:"name"`
	Content string   `json:"content,omitempty"`
	DropIns []DropIn `json:"dropIns,omitempty"`
	Start   string   `json:"start,omitempty"`
	Mask    bool     `json:"mask,omitempty"`
}

// DropIn changes a unit.
type DropIn struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Command is a script of bash.
type Command struct {
	Name   string `json:"name"`
	When   string `json:"when,omitempty"`
	Run    string `json:"run,omitempty"`
	Script string `json:"script"`
	Secret bool   `json:"secret,omitempty"`
}
