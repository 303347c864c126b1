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

// clouds are those for which the template exists with MachineClasses of the cluster's
// own. A control plane with kubeadm needs a load balancer in front of it, which the
// simulated cloud's tests bring along.
func (f flavor) clouds() []string {
	if !f.boots {
		return []string{"sim"}
	}
	return []string{"sim", "aws", "openstack", "vsphere"}
}

// A template without a cloud refers to classes that are there already; one with a
// cloud makes classes for the cluster. These are the names of the classes of both.
func ownClasses() map[string]string {
	return map[string]string{
		"${MACHINE_CLASS_NAME}":               "${CLUSTER_NAME}-md-0",
		"${CONTROL_PLANE_MACHINE_CLASS_NAME}": "${CLUSTER_NAME}-control-plane",
	}
}

// On AWS the cloud's controller manager finds an instance by its private DNS name,
// so that is what a node has to be called; cloud-init knows it.
const (
	machineName = `"<<MACHINE_NAME>>"`
	nameOnAWS   = `"{{ ds.meta_data.local_hostname }}"`
)

// The simulated cloud has no controller manager: the kubelet says which VM it is on.
var (
	external = regexp.MustCompile(`- name: cloud-provider\n( +)value: external\n`)
	onSim    = "- name: provider-id\n${1}value: \"sim:///{{ v1.availability_zone }}/{{ v1.instance_id }}\"\n"
)

// templates writes all cluster templates and ClusterClasses.
func (r *release) templates() error {
	files := map[string][]string{
		"clusterclass-mcm.yaml":                  {"clusterclass-mcm"},
		"clusterclass-mcm-workers.yaml":          {"clusterclass-mcm-workers"},
		"cluster-template-topology.yaml":         {"cluster-topology"},
		"cluster-template-topology-workers.yaml": {"cluster-topology-workers"},
	}
	for _, f := range flavors() {
		files[fileOf(f.name)] = f.partsFor("")
		for _, cloud := range f.clouds() {
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
	parts := append([]string{}, f.parts...)
	switch {
	case cloud == "" && f.boots:
		parts = append(parts, "boot-class")
	case cloud != "":
		parts = append(parts, "cloud-"+cloud)
		if f.boots {
			parts = append(parts, "boot-secret", userData(cloud))
		} else {
			parts = append(parts, "cloud-"+cloud+"-control-plane")
		}
	}
	return parts
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
	own := false
	for _, part := range parts {
		text, err := os.ReadFile(filepath.Join(r.root, "templates", part+".yaml"))
		if err != nil {
			return nil, err
		}
		own = own || strings.HasPrefix(part, "cloud-")
		texts = append(texts, text)
	}
	text := bytes.Join(texts, []byte("---\n"))
	if own {
		for variable, name := range ownClasses() {
			text = bytes.ReplaceAll(text, []byte(variable), []byte(name))
		}
	}
	if slices.Contains(parts, "cloud-sim") {
		text = external.ReplaceAll(text, []byte(onSim))
	}
	if slices.Contains(parts, "cloud-aws") {
		text = bytes.ReplaceAll(text, []byte(machineName), []byte(nameOnAWS))
	}
	return text, nil
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
