package userdata

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	kjson "sigs.k8s.io/json"
)

func (p *problems) checkNode(n *Node) {
	p.oneOf("spec.node.nameFrom", n.NameFrom, nameFromHostname, nameFromMachine, nameFromFullHostname)
	p.oneOf("spec.node.ipFamily", n.IPFamily, ipv4, ipv6, dual)
	p.oneOf("spec.node.cloudProvider", n.CloudProvider, external, none)
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		p.checkLabel("spec.node.labels["+key+"]", key, n.Labels[key])
	}
	for i, t := range n.Taints {
		field := fmt.Sprintf("spec.node.taints[%d]", i)
		for _, problem := range validation.IsQualifiedName(t.Key) {
			p.add(field+".key", "%s; correct it", problem)
		}
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			p.add(field+".value", "%s; correct it", problem)
		}
		p.oneOf(field+".effect", t.Effect, "NoSchedule", "PreferNoSchedule", "NoExecute")
	}
}

func (p *problems) checkLabel(field, key, value string) {
	for _, problem := range validation.IsQualifiedName(key) {
		p.add(field, "%s; correct it", problem)
	}
	for _, problem := range validation.IsValidLabelValue(value) {
		p.add(field, "%s; correct it", problem)
	}
	if !kubeletMaySet(key) {
		p.add(field, "a kubelet may not give itself this label, and does not start with it; "+
			"let the machine controllers set it: write it into the labels of the pool's node template")
	}
}

// kubeletMaySet reports whether a kubelet starts with a label in its flag --node-labels.
func kubeletMaySet(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	ofKubernetes := domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") ||
		domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io")
	return !ok || !ofKubernetes || kubeletapis.IsKubeletLabel(key)
}

// ownFields are those of a KubeletConfiguration that other fields of the spec decide.
var ownFields = map[string]string{
	"apiVersion":               "leave it out: it is kubelet.config.k8s.io/v1beta1",
	"kind":                     "leave it out: it is KubeletConfiguration",
	"clusterDNS":               "write spec.cluster.dnsServiceIPs",
	"clusterDomain":            "write spec.cluster.dnsDomain",
	"registerWithTaints":       "write spec.node.taints",
	"containerRuntimeEndpoint": "leave it out: it is that of containerd",
	"cgroupDriver":             "leave it out: it is systemd, as in containerd's configuration",
}

func (p *problems) checkKubelet(k *Kubelet) {
	const field = "spec.kubelet.configuration"
	for _, name := range slices.Sorted(maps.Keys(k.Configuration)) {
		if remedy, ok := ownFields[name]; ok {
			p.add(field+"."+name, "another part of the spec decides it; %s", remedy)
		}
	}
	data, err := json.Marshal(k.Configuration)
	if err != nil {
		p.add(field, "%w; correct it", err)
		return
	}
	unknown, err := kjson.UnmarshalStrict(data, &kubeletv1beta1.KubeletConfiguration{})
	if err != nil {
		p.add(field, "the kubelet does not read it: %w; correct the type of that field", err)
	}
	for _, problem := range unknown {
		p.add(field, "the kubelet does not know it: %w; correct its name, or remove it", problem)
	}
}

var (
	imagePattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)
	registryPattern = regexp.MustCompile(`^(_default|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d+)?)$`)
)

// newestContainerd is the newest minor of containerd 2 whose configuration has been read: 2.4 is to have no
// credentials of registries in it.
const newestContainerd = 3

func (p *problems) checkRuntime(c *ContainerRuntime) {
	p.version("spec.containerRuntime.version", c.Version, "2.3.7")
	if v, err := semver.Parse(c.Version); err == nil && (v.Major != 2 || v.Minor > newestContainerd) {
		p.add("spec.containerRuntime.version", "%q is not supported; choose containerd 2.0 to 2.%d, e.g. 2.3.7",
			c.Version, newestContainerd)
	}
	p.word("spec.containerRuntime.sandboxImage", c.SandboxImage, imagePattern, defaultSandbox)
	var seen []string
	for i, mirror := range c.Mirrors {
		field := fmt.Sprintf("spec.containerRuntime.mirrors[%d]", i)
		if slices.Contains(seen, mirror.Registry) {
			p.add(field+".registry", "%s is there twice; put all endpoints into one entry", mirror.Registry)
		}
		seen = append(seen, mirror.Registry)
		p.checkMirror(field, mirror)
	}
	for i, credential := range c.Credentials {
		field := fmt.Sprintf("spec.containerRuntime.credentials[%d]", i)
		p.word(field+".registry", credential.Registry, registryPattern, "registry.example.com")
		p.required(field+".username", credential.Username, "reader")
		p.required(field+".password", credential.Password, "the registry's token")
		p.line(field+".username", credential.Username)
		p.line(field+".password", credential.Password)
	}
}

func (p *problems) checkMirror(field string, mirror Mirror) {
	p.word(field+".registry", mirror.Registry, registryPattern, "docker.io")
	if len(mirror.Endpoints) == 0 {
		p.add(field+".endpoints", "it is missing; write at least one url")
	}
	for i, endpoint := range mirror.Endpoints {
		at := fmt.Sprintf("%s.endpoints[%d]", field, i)
		p.address(at+".url", endpoint.URL, "https", "http")
		if endpoint.CACertificate != "" {
			p.certificate(at+".caCertificate", endpoint.CACertificate)
		}
	}
}
