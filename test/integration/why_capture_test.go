package integration

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var updateCaptures = flag.Bool("update", false, "write the captures into docs/kubectl-mcm.md")

// captures runs the verbs on two pools, one of which is broken, and compares what they print with the
// examples of docs/kubectl-mcm.md.
func captures(r *reader) {
	r.Expect(r.Client.Create(r.Context(), &corev1.Namespace{ObjectMeta: r.meta("garden")})).To(Succeed())
	r.namespace = "garden"
	_, err := r.StartManager("--namespace=garden")
	r.Expect(err).NotTo(HaveOccurred())
	r.classNamed("small")
	r.classNamed("gpu", func(c *machinev1.MachineClass, _ *corev1.Secret) {
		r.specField(c, "instanceType", "gpu")
		c.NodeTemplate.InstanceType = "gpu"
	})
	for name, size := range map[string]int32{"small": 2, "gpu": 1} {
		d := stack.Deployment(name, name, size, "1", "1")
		d.Namespace = r.namespace
		r.Expect(r.Client.Create(r.Context(), d)).To(Succeed())
	}
	r.eventually("one pool is healthy, and the other lacks capacity", func(ctx context.Context) error {
		text, _ := r.mcm(ctx, "tree")
		if !settled.MatchString(text) || !strings.Contains(text, "CapacityExhausted   wait") {
			return fmt.Errorf("it is\n%s", text)
		}
		return nil
	})
	machine := "machine/" + r.oneOf("small")
	r.eventually("the machine has joined", func(ctx context.Context) error {
		if text, code := r.mcm(ctx, "timeline", machine); code != 0 || !strings.Contains(text, "Phase=Running") {
			return fmt.Errorf("exit code %d\n%s", code, text)
		}
		return nil
	})
	timeline, code := r.mcm(r.Context(), "timeline", "machinedeployment/small")
	r.Expect(code).To(BeZero())
	r.Expect(timeline).To(MatchRegexp(`(?s)MachineDeployment/small +Created.* Registered.* Ready=True`))
	for name, command := range map[string]string{
		"tree": "tree", "why": "why machinedeployment/gpu", "top": "top",
		"timeline": "timeline " + machine, "plan": "plan small --class gpu",
	} {
		r.capture(name, command)
	}
	r.watches()
}

// oneOf returns the name of a Machine of that pool.
func (r *reader) oneOf(pool string) string {
	var all machinev1.MachineList
	r.Expect(r.Client.List(r.Context(), &all, client.InNamespace(r.namespace))).To(Succeed())
	i := slices.IndexFunc(all.Items, func(m machinev1.Machine) bool { return strings.HasPrefix(m.Name, pool+"-") })
	r.Expect(i).To(BeNumerically(">=", 0), "machines of pool %s", pool)
	return all.Items[i].Name
}

// watches has tree --watch print what a pool becomes while it is scaled, until it is interrupted.
func (r *reader) watches() {
	cmd := exec.CommandContext(r.Context(), filepath.Join(binaries, "kubectl-mcm"), "tree", "small", "--watch",
		"-n", r.namespace, "--kubeconfig", r.kubeconfig)
	out, err := cmd.StdoutPipe()
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(cmd.Start()).To(Succeed())
	lines := bufio.NewScanner(out)
	r.Expect(printed(lines, settled)).To(BeTrue(), "the pool before")
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "small"}}
	r.Expect(r.Client.Patch(r.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`)))).
		To(Succeed())
	r.Expect(printed(lines, regexp.MustCompile(`MachineDeployment/small +3/3 +Ready`))).To(BeTrue(), "the pool after")
	r.Expect(cmd.Process.Signal(os.Interrupt)).To(Succeed())
	r.Expect(cmd.Wait()).To(Succeed())
}

// printed reads lines until one matches; false if they end before.
func printed(lines *bufio.Scanner, want *regexp.Regexp) bool {
	for lines.Scan() {
		if want.MatchString(lines.Text()) {
			return true
		}
	}
	return false
}

var (
	settled = regexp.MustCompile(`MachineDeployment/small +2/2 +Ready`)
	hashes  = regexp.MustCompile(`(?:small|gpu|workers)-[a-z0-9]{5,10}(-[a-z0-9]{5})?\b`)
	ages    = regexp.MustCompile(`\b\d+[ms](\d+s)?\b`)
	zones   = regexp.MustCompile(`sim:///[\w/.-]+`)
	moments = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	vms     = regexp.MustCompile(`\bvm-[0-9a-f]{17}\b`)
	uuids   = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	traces  = regexp.MustCompile(`Trace ID: [0-9a-f]{32}`)
	gaps    = regexp.MustCompile(` {2,}`)
	// A refusal that the manager remembers saves a call; whether it does is a matter of time.
	memory = regexp.MustCompile(` \(remembered from [^)]*\)`)
	// How often a VM tries to join depends on how busy the machine is, and how many bytes a file has
	// on all ages and IDs in it.
	counts   = regexp.MustCompile(`(Seen: +|\(attempt |\.(?:txt|yaml) +)\d+`)
	archives = regexp.MustCompile(`bundle-\d{8}T\d{6}Z`)
)

// normalised is a text without what differs between two runs: names in the order in which they
// appear, times, ages, IDs of VMs, owners and traces, attempts, bytes, the width of columns, and the order of
// what a timeline has within a second.
func normalised(text string) string {
	seen := map[string]string{}
	text = hashes.ReplaceAllStringFunc(text, func(name string) string {
		if seen[name] == "" {
			seen[name] = fmt.Sprintf("%s-%d", strings.SplitN(name, "-", 2)[0], len(seen))
		}
		return seen[name]
	})
	text = memory.ReplaceAllString(text, "")
	text = counts.ReplaceAllString(archives.ReplaceAllString(text, "bundle-TIME"), "${1}1")
	text = uuids.ReplaceAllString(vms.ReplaceAllString(text, "vm-1"), "ID")
	text = zones.ReplaceAllString(ages.ReplaceAllString(text, "12s"), "sim:///VM")
	text = gaps.ReplaceAllString(moments.ReplaceAllString(text, "2026-01-01T12:00:00Z"), "  ")
	if traces.MatchString(text) {
		lines := strings.Split(traces.ReplaceAllString(text, "Trace ID: 0"), "\n")
		slices.Sort(lines)
		text = strings.Join(lines, "\n")
	}
	return text
}

// capture compares what a command prints with the block of that name.
func (r *reader) capture(name, command string) {
	r.Helper()
	text, _ := r.mcm(r.Context(), strings.Fields(command)...)
	r.documented(name, "$ kubectl mcm "+command+" -n "+r.namespace+"\n"+text)
}

// documented compares a capture with the block of that name.
func (r *reader) documented(name, text string) {
	r.Helper()
	root, err := cluster.Root()
	r.Expect(err).NotTo(HaveOccurred())
	page := filepath.Join(root, "docs", "kubectl-mcm.md")
	content, err := os.ReadFile(page)
	r.Expect(err).NotTo(HaveOccurred())
	block := regexp.MustCompile("(?s)<!-- capture: " + name + " -->\n(?:\n```console\n(.*?)```\n)?")
	found := block.FindStringSubmatchIndex(string(content))
	r.Expect(found).NotTo(BeNil(), "docs/kubectl-mcm.md has no capture %s", name)
	if *updateCaptures {
		written := fmt.Sprintf("%s<!-- capture: %s -->\n\n```console\n%s```\n%s", content[:found[0]], name, text,
			content[found[1]:])
		r.Expect(os.WriteFile(page, []byte(written), 0o600)).To(Succeed())
		return
	}
	r.Expect(found[2]).To(BeNumerically(">", 0), "docs/kubectl-mcm.md has nothing in capture %s", name)
	if diff := cmp.Diff(normalised(string(content[found[2]:found[3]])), normalised(text)); diff != "" {
		r.Errorf("docs/kubectl-mcm.md is not what %s prints; run the test with -update:\n%s", name, diff)
	}
}
