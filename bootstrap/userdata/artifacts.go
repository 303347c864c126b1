package userdata

import (
	"fmt"
	"strings"
)

// Where programs are installed: on Flatcar /usr is read-only.
const (
	binDirectory = "/opt/bin"
	cniDirectory = "/opt/cni/bin"
)

// download is one line of what setup.sh fetches.
type download struct {
	name, version string // of the field and of the program
	file, kind    string // its name at the publisher; kind is binary, binaries or plugins
	origin        string
	artifact      Artifact
}

// downloads are in the order of installation.
func (s *Spec) downloads() []download {
	a, arch := s.Artifacts, s.Architecture
	runc, cni := a.Runc.Version, a.CNIPlugins.Version
	return []download{
		{
			"containerd", s.ContainerRuntime.Version,
			fmt.Sprintf("containerd-%s-linux-%s.tar.gz", s.ContainerRuntime.Version, arch), "archive",
			"https://github.com/containerd/containerd/releases/download/v" + s.ContainerRuntime.Version, a.Containerd,
		},
		{
			"runc", runc, "runc." + arch, "binary",
			"https://github.com/opencontainers/runc/releases/download/" + runc, a.Runc,
		},
		{
			"cniPlugins", cni, fmt.Sprintf("cni-plugins-linux-%s-%s.tgz", arch, cni), "plugins",
			"https://github.com/containernetworking/plugins/releases/download/" + cni, a.CNIPlugins,
		},
		{
			"kubelet", s.KubernetesVersion, "kubelet", "binary",
			fmt.Sprintf("https://dl.k8s.io/release/%s/bin/linux/%s", s.KubernetesVersion, arch), a.Kubelet,
		},
	}
}

// url is the artifact's own, or that of the mirror, BASE/NAME/VERSION/ARCHITECTURE/FILE, or the publisher's.
func (d *download) url(s *Spec) string {
	if d.artifact.URL != "" {
		return d.artifact.URL
	}
	if s.Artifacts.BaseURL != "" {
		return strings.Join([]string{
			strings.TrimSuffix(s.Artifacts.BaseURL, "/"), d.name, d.version, s.Architecture, d.file,
		}, "/")
	}
	return d.origin + "/" + d.file
}

// artifactLines are /etc/mcm/artifacts: name, kind, sha256 and URL.
func (s *Spec) artifactLines() string {
	if s.Artifacts.Preinstalled != nil {
		return ""
	}
	var out strings.Builder
	for _, d := range s.downloads() {
		fmt.Fprintf(&out, "%s %s %s %s\n", d.name, d.kind, d.artifact.SHA256, d.url(s))
	}
	return out.String()
}

func (p *problems) checkArtifacts(s *Spec) {
	a := s.Artifacts
	if a.Preinstalled != nil {
		p.word("spec.artifacts.preinstalled.directory", a.Preinstalled.Directory, pathPattern, "/usr/bin")
		p.word("spec.artifacts.preinstalled.containerdDirectory", a.Preinstalled.ContainerdDirectory, pathPattern,
			"/usr/local/bin")
		p.word("spec.artifacts.preinstalled.cniDirectory", a.Preinstalled.CNIDirectory, pathPattern, cniDirectory)
		empty := Artifacts{Preinstalled: a.Preinstalled}
		if a != empty {
			p.add("spec.artifacts", "the image has the programs and there is nothing to download; "+
				"remove preinstalled or the other fields")
		}
		return
	}
	if a.BaseURL != "" {
		p.address("spec.artifacts.baseURL", a.BaseURL, "https", "http")
	}
	for _, d := range s.downloads() {
		p.checkDownload("spec.artifacts."+d.name, d)
	}
}

func (p *problems) checkDownload(field string, d download) {
	switch d.name {
	case "containerd", "kubelet":
		if d.artifact.Version != "" {
			p.add(field+".version", "it stands in spec.containerRuntime.version or spec.kubernetesVersion; remove it here")
		}
	default:
		p.version(field+".version", d.artifact.Version, "v1.3.3")
	}
	p.sha256(field+".sha256", d.artifact.SHA256, d.name)
	if d.artifact.URL != "" {
		p.address(field+".url", d.artifact.URL, "https", "http")
	}
}
