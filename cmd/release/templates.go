package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A flavor is one cluster template: parts of templates/, one after the other.
type flavor struct {
	name  string // empty is clusterctl's default
	parts []string
	// boots is whether machines boot with user data of MCM, which comes from the
	// class's Secret, or with a cloud from a Secret of the template.
	boots bool
}

func flavors() []flavor {
	return []flavor{
		{"", []string{"cluster-kubeadm", "workers-kubeadm"}, false},
		{"workers-only", []string{"cluster-external", "workers"}, true},
		{"self-hosted", []string{"cluster-self-hosted", "workers"}, true},
		{"autoscale", []string{"cluster-external", "workers-autoscale"}, true},
		{"health-check", []string{"cluster-external", "workers", "health-check"}, true},
	}
}

// clouds are those for which a template exists with MachineClasses of the cluster's own.
func clouds() []string {
	return []string{"sim", "aws", "azure", "gcp", "hetzner", "kubevirt", "openstack", "vsphere"}
}

// addons are the clouds for which there are charts of what a new cluster needs.
func addons() []string { return []string{"aws", "openstack", "vsphere"} }

// kubeVIP is the part that goes into the KubeadmControlPlane before it, where a cloud has no
// load balancer.
const kubeVIP = "kube-vip"

// A template without a cloud refers to classes that are there already; one with a
// cloud makes classes for the cluster. These are the names of the classes of both.
func ownClasses() map[string]string {
	return map[string]string{
		"${MACHINE_CLASS_NAME}":               "${CLUSTER_NAME}-md-0",
		"${CONTROL_PLANE_MACHINE_CLASS_NAME}": "${CLUSTER_NAME}-control-plane",
	}
}

// A change is what a cloud needs to be different in parts that all clouds share.
type change struct {
	from *regexp.Regexp
	to   string
}

// The cloud controller manager finds a node's VM by what the node is called: on AWS its
// private DNS name, elsewhere the VM's name, which is the machine's. cloud-init knows both. The
// simulated cloud has no controller manager: the kubelet says which VM it is on.
func changes() map[string][]change {
	const (
		nameOnAWS = `"{{ ds.meta_data.local_hostname }}"`
		hostName  = `"{{ v1.local_hostname }}"`
	)
	external := regexp.MustCompile(`- name: cloud-provider\n( +)value: external\n`)
	machineName := regexp.MustCompile(`"<<MACHINE_NAME>>"`)
	unnamed := regexp.MustCompile(`nodeRegistration:\n( +)kubeletExtraArgs:`)
	named := func(name string) change {
		return change{unnamed, "nodeRegistration:\n${1}name: " + name + "\n${1}kubeletExtraArgs:"}
	}
	return map[string][]change{
		"sim": {{
			external, "- name: provider-id\n${1}value: \"sim:///{{ v1.availability_zone }}/{{ v1.instance_id }}\"\n",
		}},
		"aws":       {{machineName, nameOnAWS}, named(nameOnAWS)},
		"azure":     {named(hostName)},
		"gcp":       {named(hostName)},
		"hetzner":   {named(hostName)},
		"kubevirt":  {named(hostName)},
		"openstack": {named(hostName)},
		"vsphere":   {named(hostName)},
	}
}

// templates writes all cluster templates, ClusterClasses and charts of add-ons.
func (r *release) templates() error {
	files := map[string][]string{
		"clusterclass-mcm.yaml":                  {"clusterclass-mcm"},
		"clusterclass-mcm-workers.yaml":          {"clusterclass-mcm-workers"},
		"cluster-template-topology.yaml":         {"cluster-topology"},
		"cluster-template-topology-workers.yaml": {"cluster-topology-workers"},
	}
	for _, cloud := range addons() {
		files["addons-"+cloud+".yaml"] = []string{"addons-calico", "addons-" + cloud}
	}
	for _, f := range flavors() {
		files[fileOf(f.name)] = f.partsFor("")
		for _, cloud := range clouds() {
			files[fileOf(strings.TrimSuffix(cloud+"-"+f.name, "-"))] = f.partsFor(cloud)
		}
	}
	for file, parts := range files {
		text, err := r.join(parts)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := r.write(infrastructure, file, text); err != nil {
			return err
		}
	}
	return nil
}

func fileOf(flavor string) string {
	return strings.TrimSuffix("cluster-template-"+flavor, "-") + ".yaml"
}

// partsFor are the parts of the flavor on a cloud; empty: on any.
func (f flavor) partsFor(cloud string) []string {
	parts := slices.Clone(f.parts)
	switch {
	case cloud == "" && f.boots:
		return append(parts, "boot-class")
	case cloud == "":
		return parts
	case f.boots:
		return append(parts, "cloud-"+cloud, "boot-secret", userData(cloud))
	case cloud == "vsphere":
		parts = slices.Insert(parts, 1, kubeVIP)
	}
	return append(parts, "cloud-"+cloud, "cloud-"+cloud+"-control-plane")
}

// userData is the part with what a cloud's VMs boot with.
func userData(cloud string) string {
	if cloud == "sim" {
		return "userdata-sim"
	}
	return "userdata-kubeadm"
}

// join puts parts into one file. With a cloud among them the classes are the cluster's own.
func (r *release) join(parts []string) ([]byte, error) {
	var texts [][]byte
	for _, part := range parts {
		text, err := os.ReadFile(filepath.Join(r.root, "templates", part+".yaml"))
		if err != nil {
			return nil, err
		}
		if part == kubeVIP {
			last, above := &texts[len(texts)-1], []byte("  kubeadmConfigSpec:\n")
			*last = bytes.Replace(*last, above, append(above, text...), 1)
			continue
		}
		texts = append(texts, text)
	}
	text := bytes.Join(texts, []byte("---\n"))
	for _, cloud := range clouds() {
		if slices.Contains(parts, "cloud-"+cloud) {
			text = on(cloud, text)
		}
	}
	return text, nil
}

// on is a template with the classes of a cloud.
func on(cloud string, text []byte) []byte {
	for variable, name := range ownClasses() {
		text = bytes.ReplaceAll(text, []byte(variable), []byte(name))
	}
	for _, c := range changes()[cloud] {
		text = c.from.ReplaceAll(text, []byte(c.to))
	}
	return text
}

// configuration writes a configuration of clusterctl with which it takes the
// providers from this folder.
func (r *release) configuration() error {
	var text strings.Builder
	text.WriteString("# clusterctl takes the providers from this folder with --config and this file.\nproviders:\n")
	for _, b := range bundles() {
		if b.provider != "" {
			fmt.Fprintf(&text, "- name: capmcm\n  type: %s\n  url: file://%s\n", b.provider,
				filepath.Join(r.out, b.label, r.version, b.file))
		}
	}
	file := filepath.Join(r.out, "clusterctl.yaml")
	return os.WriteFile(file, []byte(text.String()), 0o644) //nolint:gosec // a release is for everybody to read
}
