package console

import (
	"regexp"
	"strings"
)

// Cause is why a node did not join. The texts are part of what users see and do not change.
type Cause string

// The causes, in the order of a boot.
const (
	Unknown       Cause = ""
	Network       Cause = "Network"       // no address or no route at all
	Metadata      Cause = "Metadata"      // the cloud's metadata service does not answer
	CloudConfig   Cause = "CloudConfig"   // cloud-init cannot use the boot data
	NetworkPlugin Cause = "NetworkPlugin" // no CNI
	ImagePull     Cause = "ImagePull"
	Unreachable   Cause = "Unreachable" // no route to the API server, or nothing answers there
	DNS           Cause = "DNS"
	Clock         Cause = "Clock" // a certificate is not valid at the guest's time
	UnknownCA     Cause = "UnknownCA"
	Unauthorized  Cause = "Unauthorized" // the token has expired or is another cluster's
	NodeName      Cause = "NodeName"     // the kubelet has credentials of a node of another name
	Swap          Cause = "Swap"
	Cgroup        Cause = "Cgroup"
	Module        Cause = "Module"  // the kernel lacks one
	Runtime       Cause = "Runtime" // the container runtime does not serve the kubelet
	Architecture  Cause = "Architecture"
	Disk          Cause = "Disk"  // full, missing or broken
	Panic         Cause = "Panic" // of the kernel
)

// row is how a cause is recognised.
type row struct {
	cause           Cause
	summary, remedy string
	shows, butNot   *regexp.Regexp
	hint            bool // healthy boots write it too
}

// joined is what a kubelet writes when its Node exists.
var joined = regexp.MustCompile(`Successfully registered node|^Registered node `)

// metadataService matches calls to the metadata service, at its address of any cloud. Where a subnet
// has no IPv6, its IPv6 address is unreachable, whatever the network is like.
const (
	ipv4Service     = `(169\.254\.169\.254|100\.100\.100\.200)`
	metadataService = ipv4Service + `|fd00:ec2::254`
)

// rows are all causes, those of later steps after those of earlier ones. What stops a kubelet before
// it makes a call comes last: whatever failed before it has ended.
var rows = []row{
	{
		cause: NetworkPlugin, summary: "no network plugin (CNI)", hint: true,
		remedy: "install a network plugin in the cluster; a node without one joins, and does not become ready",
		shows: pattern(`cni plugin not initialized`, `NetworkPluginNotReady`, `no networks found in /etc/cni/net\.d`,
			`no network config found in /etc/cni/net\.d`),
	},
	{
		cause: Network, summary: "no network",
		remedy: "check the subnet and its DHCP, the interface's security groups and, without DHCP, the static addresses",
		shows: pattern(`No DHCPOFFERS received`, `No working leases in persistent database`, `Route info failed`,
			ipv4Service+`.*Network is unreachable`),
		butNot: pattern(`fd00:ec2::254.*Network is unreachable`),
	},
	{
		cause: Metadata, summary: "metadata service unreachable",
		remedy: "check the route to 169.254.169.254 from the subnet, the metadata options of the class and the hop limit",
		shows: pattern(`(Calling|open|request to) .*(`+metadataService+`).*(failed|error|raising)`,
			`Giving up on md from`, `No instance datasource found`, `IMDS's HTTP endpoint is probably disabled`,
			`Timed out, no response from urls: \[.*(`+metadataService+`)`),
		butNot: pattern(`Network is unreachable`),
	},
	{
		cause: CloudConfig, summary: "cloud-init cannot use the boot data",
		remedy: "run `cloud-init schema --config-file` on the user data of the class's Secret, and correct it",
		shows: pattern(`Failed loading yaml blob`, `Failed at merging in cloud config part`, `Invalid cloud-config provided`,
			`Cloud config schema errors`, `Failed to shellify`, `Unhandled non-multipart \(text/x-not-multipart\) userdata`,
			`Failed running .*/var/lib/cloud/instance/scripts/`),
	},
	{
		cause: ImagePull, summary: "an image cannot be pulled",
		remedy: "check that nodes reach the registry, its mirror and credentials, and that the image exists",
		shows: pattern(`failed to pull and unpack image`, `[Ff]ailed to pull image`, `failed pulling image`,
			`failed to get sandbox image`, `ErrImagePull`, `ImagePullBackOff`),
	},
	{
		cause: Unreachable, summary: "API server unreachable",
		remedy: "check the API server's address in the boot data, the route to it, security groups and its load balancer",
		shows: pattern(`dial tcp [^ ]+: (connect: |i/o timeout)`, `:6443/.*(i/o timeout|Client\.Timeout exceeded)`,
			`couldn't validate the identity of the API Server: .*(timeout|refused|no route)`),
		butNot: pattern(`lookup `, `pull`, `/v2/[^ ]*/manifests/`, metadataService), // of a registry
	},
	{
		cause: DNS, summary: "a name cannot be resolved",
		remedy: "check the nameservers of the subnet or the class, and the name",
		shows: pattern(`lookup [^ ]+( on [^ ]+)?: (no such host|server misbehaving|read udp|dial udp|.*i/o timeout)`,
			`Temporary failure in name resolution`, `Name or service not known`, `Could not resolve host`),
	},
	{
		cause: Clock, summary: "certificate not valid at the guest's time",
		remedy: "compare the time on the line with the present: if it differs, correct the guest's clock (NTP, the " +
			"hypervisor); otherwise renew the certificate",
		shows: pattern(`x509: certificate has expired or is not yet valid`),
	},
	{
		cause: UnknownCA, summary: "TLS unknown CA",
		remedy: "the boot data has another cluster's CA, or the endpoint shows another certificate: compare both",
		shows:  pattern(`x509: certificate signed by unknown authority`, `cluster CA found in cluster-info .* is invalid`),
	},
	{
		cause: Unauthorized, summary: "token refused (401)",
		remedy: "the bootstrap token has expired or is unknown: check its life against the time a boot takes, and the " +
			"user data of the class's Secret",
		shows: pattern(`\bUnauthorized\b`, `token id "[^"]*" is invalid`, `no JWS signed token in the cluster-info`,
			`User "system:anonymous" cannot`),
		butNot: pattern(metadataService, `pull`),
	},
	{
		cause: NodeName, summary: "node name mismatch",
		remedy: "the name of the host and of the kubelet's credentials differ: let --hostname-override, the host name " +
			"and what the cloud calls the VM agree",
		shows: pattern(`can only create a node CSR with CN=`, `can only access node lease with the same name`,
			`cannot read '[^']*', only its own Node object`, `is forbidden: node "[^"]*" (is not allowed to|cannot) modify`),
	},
	{
		cause: Swap, summary: "swap is on",
		remedy: "switch swap off in the image or the boot data, or set failSwapOn of the kubelet to false",
		shows:  pattern(`[Rr]unning with swap on is not supported`),
	},
	{
		cause: Cgroup, summary: "cgroup driver or version",
		remedy: "let the kubelet and the container runtime use the same cgroup driver, and an image with cgroup v2",
		shows: pattern(`kubelet cgroup driver: .* is different from`, `expected cgroupsPath to be of format`,
			`configured to not run on a host using cgroup v1`, `Cgroup subsystem not mounted`),
	},
	{
		cause: Module, summary: "a module of the kernel is missing", hint: true,
		remedy: "install the modules of the kernel that runs, as a package of the distribution has them, or use " +
			"another image",
		shows:  pattern(`modprobe: FATAL: Module [^ ]+ not found`),
		butNot: pattern(`Module configs not found`), // kubeadm asks for it, and does without
	},
	{
		cause: Runtime, summary: "container runtime does not serve the kubelet",
		remedy: "look at the runtime's first failure, above: a plugin that its configuration disables, as " +
			"Docker's package does with CRI, or a version that is too old",
		shows: pattern(`unknown service runtime\.v1\.`),
	},
	{
		cause: Architecture, summary: "program of another architecture",
		remedy: "let the image, the programs that the boot data downloads, and the instance type have one architecture",
		shows:  pattern(`[Ee]xec format error`),
	},
	{
		cause: Disk, summary: "disk full, missing or broken",
		remedy: "check the size of the root disk and that the volumes that the image mounts exist",
		shows: pattern(`[Nn]o space left on device`, `Timed out waiting for device /dev/(disk|sd|vd|xvd|nvme|mapper)`,
			`Dependency failed for Local File Systems`, `You are in emergency mode`, `Unable to mount root fs`,
			`ALERT! +[^ ]+ does not exist`),
	},
	{
		cause: Panic, summary: "kernel panic",
		remedy: "look at the lines above the panic, and start the image on this instance type by hand: a module of the " +
			"kernel, its version or too little memory are common",
		shows:  pattern(`Kernel panic - not syncing`),
		butNot: pattern(`Unable to mount root fs`),
	},
}

// pattern matches any of the alternatives.
func pattern(alternatives ...string) *regexp.Regexp {
	return regexp.MustCompile("(?:" + strings.Join(alternatives, ")|(?:") + ")")
}
