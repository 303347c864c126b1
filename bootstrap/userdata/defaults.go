package userdata

// What fields may say.
const (
	archAMD64, archARM64 = "amd64", "arm64"

	nameFromHostname, nameFromMachine, nameFromFullHostname = "hostname", "machine", "fullHostname"
	ipv4, ipv6, dual                                        = "ipv4", "ipv6", "dual"
	external, none                                          = "external", "none"
	baseDefault                                             = "default"
	swapOff, swapKeep                                       = "off", "keep"

	updatesOff, updatesSecurity, updatesAll = "off", "security", "all"
	fipsOff, fipsRequire, fipsEnable        = "off", "require", "enable"

	beforeKubelet, afterKubelet = "beforeKubelet", "afterKubelet"
	once, everyBoot             = "once", "everyBoot"
	encodingBase64              = "base64"
)

// defaultSandbox is the image that containerd 2.3 has without a setting. It stands in the output, so
// that a later default does not change a pool.
const defaultSandbox = "registry.k8s.io/pause:3.10.2"

// setDefaults fills in what is left out, so that the rest of the package sees complete specs.
func (s *Spec) setDefaults() {
	set(&s.GeneratorVersion, Version)
	set(&s.Architecture, archAMD64)
	set(&s.OperatingSystem.Packages.Base, baseDefault)
	set(&s.Cluster.DNSDomain, "cluster.local")
	set(&s.Node.NameFrom, nameFromHostname)
	set(&s.Node.IPFamily, ipv4)
	set(&s.Node.CloudProvider, external)
	set(&s.ContainerRuntime.SandboxImage, defaultSandbox)
	set(&s.System.Swap, swapOff)
	set(&s.System.Updates, updatesOff)
	set(&s.System.FIPS, fipsOff)
	if p := s.Artifacts.Preinstalled; p != nil {
		set(&p.Directory, "/usr/bin")
		set(&p.ContainerdDirectory, p.Directory)
		set(&p.CNIDirectory, cniDirectory)
	}
	for i := range s.Files {
		set(&s.Files[i].Permissions, "0644")
	}
	for i := range s.Commands {
		set(&s.Commands[i].When, beforeKubelet)
		set(&s.Commands[i].Run, once)
	}
	for i := range s.Units {
		set(&s.Units[i].Start, none)
	}
}

func set(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
