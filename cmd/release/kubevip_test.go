package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kubeVIPOf returns the static pod's manifest and the commands before and after kubeadm of flavor
// vsphere.
func kubeVIPOf(t *testing.T) (manifest string, before, after []string) {
	t.Helper()
	for _, o := range objects(t, filepath.Join(written(t), infrastructure, "v0.1.7", "cluster-template-vsphere.yaml")) {
		if o.GetKind() != "KubeadmControlPlane" {
			continue
		}
		spec, _, _ := unstructured.NestedMap(o.Object, "spec", "kubeadmConfigSpec")
		before, _, _ = unstructured.NestedStringSlice(spec, "preKubeadmCommands")
		after, _, _ = unstructured.NestedStringSlice(spec, "postKubeadmCommands")
		files, _, _ := unstructured.NestedSlice(spec, "files")
		for _, f := range files {
			file, _ := f.(map[string]any)
			if file["path"] == "/etc/kubernetes/manifests/kube-vip.yaml" {
				manifest, _ = file["content"].(string)
			}
		}
	}
	if manifest == "" || len(before) != 1 || len(after) != 1 {
		t.Fatalf("manifest %q, commands %q and %q", manifest, before, after)
	}
	return manifest, before, after
}

// kubeconfigOf is the file on the machine that kube-vip has as admin.conf.
func kubeconfigOf(t *testing.T, manifest string) string {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		t.Fatal(err)
	}
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		if mount.MountPath != "/etc/kubernetes/admin.conf" {
			t.Errorf("kube-vip has %s, and looks for admin.conf only", mount.MountPath)
		}
	}
	return pod.Spec.Volumes[0].HostPath.Path
}

// TestKubeVIPOfTheFirstMachine: until kubeadm init is done, admin.conf has no permissions, and kube-vip
// would never get its lease; afterwards, and on machines that join, super-admin.conf is not
// wanted or not there. The commands run here as on a machine.
func TestKubeVIPOfTheFirstMachine(t *testing.T) {
	t.Parallel()
	text, before, after := kubeVIPOf(t)
	const admin, super = "/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf"
	for name, tc := range map[string]struct{ kubeadm, during string }{
		"first machine":  {"kubeadm.yaml", super},
		"one that joins": {"kubeadm-join-config.yaml", admin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			manifest := filepath.Join(root, "etc/kubernetes/manifests/kube-vip.yaml")
			for path, content := range map[string]string{
				manifest: text, filepath.Join(root, "run/kubeadm", tc.kubeadm): "",
			} {
				if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range []struct {
				when     string
				commands []string
				want     string
			}{{"before kubeadm", before, tc.during}, {"after kubeadm", after, admin}} {
				sh(t, root, step.commands[0])
				now, err := os.ReadFile(manifest)
				if err != nil {
					t.Fatal(err)
				}
				if got := kubeconfigOf(t, string(now)); got != step.want {
					t.Errorf("%s kube-vip uses %s, want %s", step.when, got, step.want)
				}
			}
			left, err := os.ReadDir(filepath.Dir(manifest))
			if err != nil || len(left) != 1 {
				t.Errorf("%v, %v: the kubelet would start whatever else is in manifests", left, err)
			}
		})
	}
}

// sh runs a command on a machine whose files are below root.
func sh(t *testing.T, root, command string) {
	t.Helper()
	for _, path := range []string{"/run/kubeadm/", "/etc/kubernetes/manifests/", "/etc/kubernetes/kube-vip.yaml"} {
		command = strings.ReplaceAll(command, " "+path, " "+root+path)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}
