package clouds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/guestcloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/qemu"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// Where guests find what they need, in their network.
const (
	apiServerAt = guestcloud.ServiceIP
	downloadsAt = "10.0.0.2"
	registryAt  = "10.0.0.3"
)

// generated is a cloud, and what of a spec depends on it.
type generated struct {
	provider, nameFrom, cloudProvider, kubelet string
	source                                     func(vm) qemu.Source
}

// nodesGenerated are a cloud whose Nodes have the machines' names and that needs no controller to write their
// providerIDs, and one whose Nodes have the names that its metadata service gives them.
func nodesGenerated() []generated {
	return []generated{
		{
			"kubevirt", "machine", "none", `{providerID: "kubevirt://<<MACHINE_NAME>>", maxPods: 17}`,
			func(v vm) qemu.Source { return qemu.NoCloud(v.UserData) },
		},
		{
			"AWS", "fullHostname", "external", `{maxPods: 17}`, func(v vm) qemu.Source {
				return qemu.EC2(qemu.Server{ID: v.ID, Name: v.NodeName, UserData: v.UserData})
			},
		},
	}
}

// TestGeneratedNode: a plain Debian becomes a node by nothing but the boot data that the manager
// generates from a spec, runs a pod, and is the same node after a restart.
func TestGeneratedNode(t *testing.T) {
	t.Parallel()
	image := qemu.Require(t)
	s, manager := start(t, "certificatesigningrequest-approving-controller",
		"certificatesigningrequest-signing-controller")
	permissions := filepath.Join("..", "guests", "testdata", "bootstrap-rbac.yaml")
	if err := s.Cluster.ApplyFile(t.Context(), permissions); err != nil {
		t.Fatal(err)
	}
	for _, c := range nodesGenerated() {
		t.Run(c.provider, func(t *testing.T) {
			j := newJourney(t, s, c.provider, backends()[c.provider](t))
			j.timeout = 40 * time.Minute // the processor is emulated
			j.boots = map[string][]byte{machinev1.UserDataSpecKey: []byte(j.spec(image, c))}
			j.becomesNode(image, c, manager)
		})
	}
}

// becomesNode takes a machine from its creation over a restart to its end.
func (j *journey) becomesNode(image string, c generated, manager *stack.Manager) {
	j.Helper()
	v := j.oneVM()
	began := time.Now()
	g := qemu.Start(j.T, qemu.Options{
		Name: v.NodeName, Disk: filepath.Join(image, "plain.qcow2"), Source: c.source(v),
		Addresses: []string{apiServerAt, downloadsAt, registryAt},
	})
	j.serve(g, image)
	first := j.ready(v, "")
	j.Logf("%d bytes of boot data; Ready after %.0f s", len(v.UserData), time.Since(began).Seconds())
	j.eventually("the Machine is Running", func(ctx context.Context) error {
		machines, err := j.Machines(ctx, j.name)
		if err == nil && (len(machines) != 1 || machines[0].Status.CurrentStatus.Phase != machinev1.MachineRunning) {
			err = errors.New(j.describe())
		}
		return err
	})
	j.sameTime(g, manager, began, first)
	j.likeSpec(first, v)
	j.inGuest(g, "once\nboot\n")
	j.runPod(v)

	began = time.Now()
	// Once, also when the agent's answer gets lost and it is asked again.
	boot := first.Status.NodeInfo.BootID
	_, _ = g.Run("! grep -q " + boot + " /proc/sys/kernel/random/boot_id || systemctl --no-block reboot")
	second := j.ready(v, boot)
	j.Logf("Ready again after %.0f s", time.Since(began).Seconds())
	j.likeSpec(second, v)
	j.inGuest(g, "once\nboot\nboot\n")
	j.noVM()
}

// spec is the spec of the guest.
func (j *journey) spec(image string, c generated) string {
	j.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "generated-node.yaml"))
	j.must(err)
	ca, err := json.Marshal(string(j.Cluster.CA())) // JSON is YAML
	j.must(err)
	replaced := []string{
		"SERVER", apiServerAt, "DOWNLOADS", downloadsAt, "REGISTRY", registryAt, "CA\n", string(ca) + "\n",
		"NAME-FROM", c.nameFrom, "CLOUD-PROVIDER", c.cloudProvider, "KUBELET", c.kubelet,
		"KUBERNETES", j.version(image, "kubelet"), "CONTAINERD", strings.TrimPrefix(j.version(image, "containerd"), "v"),
	}
	for _, file := range []string{"containerd.tar.gz", "cniPlugins.tar.gz", "runc", "kubelet"} {
		content, err := os.ReadFile(filepath.Join(image, "mirror", file))
		j.must(err)
		sum := sha256.Sum256(content)
		replaced = append(replaced, "SUM-"+file, hex.EncodeToString(sum[:]))
	}
	return strings.NewReplacer(replaced...).Replace(string(text))
}

// version is that of a program of the guests.
func (j *journey) version(image, program string) string {
	j.Helper()
	out, err := exec.CommandContext(j.Context(), filepath.Join(filepath.Dir(image), "bin", program), "--version").Output()
	j.must(err)
	return regexp.MustCompile(`v\d+\.\d+\.\d+`).FindString(string(out))
}

// serve answers in the guest's network: the API server, the mirror of downloads, and a registry.
func (j *journey) serve(g *qemu.Guest, image string) {
	j.Helper()
	go guestcloud.Forward(j.Context(), g.Listen(apiServerAt+":443"), guestcloud.To(j.T, j.Cluster.URL()))

	mirror := http.NewServeMux()
	mirror.HandleFunc("GET /{name}/{version}/amd64/{file}", func(w http.ResponseWriter, r *http.Request) {
		found, _ := filepath.Glob(filepath.Join(image, "mirror", r.PathValue("name")+"*"))
		if len(found) != 1 {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, found[0])
	})
	g.Serve(g.Listen(downloadsAt+":80"), mirror)

	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	push := httptest.NewServer(images)
	defer push.Close()
	to, err := name.NewTag(strings.TrimPrefix(push.URL, "http://")+"/pause:1", name.Insecure)
	j.must(err)
	pause, err := tarball.ImageFromPath(filepath.Join(image, "mirror", "pause.tar"), nil)
	j.must(err)
	j.must(remote.Write(to, pause))
	g.Serve(g.Listen(registryAt+":80"), images)
}

// ready waits until the VM's Node is ready, by another boot than the one named, and returns it.
func (j *journey) ready(v vm, before string) corev1.Node {
	j.Helper()
	var node corev1.Node
	j.eventually("the Node is ready", func(ctx context.Context) error {
		nodes, err := j.nodes(ctx)
		node = nodes[v.NodeName]
		if err == nil && node.Name != "" && node.Spec.ProviderID == "" {
			err = j.initialize(ctx, node, v)
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && node.Status.NodeInfo.BootID != before {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("Node %s: %+v", v.NodeName, node.Status.Conditions))
	})
	return node
}

// initialize does to a Node what a cloud controller manager does.
func (j *journey) initialize(ctx context.Context, node corev1.Node, v vm) error {
	return j.Edit(ctx, &node, func() {
		node.Spec.ProviderID = v.ProviderID
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == "node.cloudprovider.kubernetes.io/uninitialized"
		})
	})
}

// likeSpec holds a Node against its spec.
func (j *journey) likeSpec(n corev1.Node, v vm) {
	j.Helper()
	var taints []string
	for _, t := range n.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") { // no controller takes not-ready away here
			taints = append(taints, t.ToString())
		}
	}
	for what, pair := range map[string][2]string{
		"providerID": {n.Spec.ProviderID, v.ProviderID},
		"label":      {n.Labels["example.com/from"], "spec"},
		"taints":     {strings.Join(taints, " "), "example.com/taint=spec:PreferNoSchedule"},
		"pods":       {n.Status.Capacity.Pods().String(), "17"},
	} {
		if pair[0] != pair[1] {
			j.Errorf("%s of the Node is %q, want %q", what, pair[0], pair[1])
		}
	}
}

// sameTime holds how long the join took, as the manager's metrics have it, against the guest's own
// clock: it counts from its kernel's start, which follows the VM's creation, to what its kubelet says of
// the Node, in whole seconds.
func (j *journey) sameTime(g *qemu.Guest, m *stack.Manager, created time.Time, n corev1.Node) {
	j.Helper()
	joined, err := m.Metric(j.Context(), "mcm_machine_join_duration_seconds")
	j.must(err)
	out, _ := g.Run(`echo $(($(date +%s) - $(cut -d. -f1 /proc/uptime)))`)
	seconds, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	j.must(err)
	kernel := time.Unix(seconds, 0)
	var ready time.Time
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c.LastTransitionTime.Time
		}
	}
	took, late := ready.Sub(kernel).Seconds(), kernel.Sub(created).Seconds()
	j.Logf("join took %.1f s by the metric; by the guest's clock %.0f s from its kernel's start, which was %.0f s "+
		"after the VM's creation", joined, took, late)
	const wholeSeconds, watches = 2, 5
	if joined < took-wholeSeconds || joined > took+late+wholeSeconds+watches {
		j.Errorf("the metric says %.1f s, want what the guest says, and what was before", joined)
	}
}

// inGuest holds what the guest has against the spec.
func (j *journey) inGuest(g *qemu.Guest, commands string) {
	j.Helper()
	for command, want := range map[string]string{
		"cloud-init status --wait >/dev/null; echo $?":    "0\n",
		"systemctl is-active mcm-setup mcm-after-kubelet": "active\nactive\n",
		"cat /var/log/spec-commands":                      commands,
		"cat /var/log/spec-after":                         "ok",
		"cat /proc/sys/vm/swappiness":                     "7\n",
		"lsmod | grep -c ^dummy":                          "1\n",
		"stat -c %a /etc/spec-secret; ls /run/spec-unit":  "600\n/run/spec-unit\n",
		"grep -c swap /proc/swaps /etc/fstab":             "/proc/swaps:0\n/etc/fstab:0\n",
	} {
		if got, _ := g.Run(command); got != want {
			j.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// runPod runs a pod on the VM's node, with an image of the registry.
func (j *journey) runPod(v vm) {
	j.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "generated-" + j.name, Namespace: stack.Namespace},
		Spec: corev1.PodSpec{NodeName: v.NodeName, Containers: []corev1.Container{{
			Name: "pause", Image: "registry.example.com/pause:1",
		}}},
	}
	j.must(j.Client.Create(j.Context(), pod))
	j.eventually("a pod runs", func(ctx context.Context) error {
		err := j.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil && (pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "") {
			err = fmt.Errorf("%+v", pod.Status)
		}
		return err
	})
}
