package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// A trial is one behaviour, shown with objects of its own on a stack that many
// share. All its objects are named after it.
type trial struct {
	*suite
	name string
}

type trialCase struct {
	name string
	run  func(*trial)
}

// TestPools shows behaviours of deployments, sets, drains and bad input, side by
// side with one manager: what one of them does must not disturb another.
func TestPools(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Controllers: cluster.Controllers("disruption-controller")},
		"--resource-exhausted-retry=1s", "--machine-pv-detach-timeout=1m", "--machine-pv-reattach-timeout=1m")
	all := slices.Concat(rolloutTrials, scaleTrials, inPlaceTrials, setTrials, drainTrials, badInputTrials)
	s.together(t, all)
	s.together(t, crowdTrials) // measures, and would disturb the others
	s.sound()
}

// together runs trials at once, more of them than there are processors: they
// mostly wait.
func (s *suite) together(t *testing.T, cases []trialCase) {
	t.Helper()
	const most = 12
	slots := make(chan struct{}, most)
	var all sync.WaitGroup
	for _, c := range cases {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(c.name, func(t *testing.T) {
				sub := &suite{Stack: s.Stack, T: t, Gomega: NewWithT(t), manager: s.manager}
				c.run(&trial{suite: sub, name: strings.ToLower(c.name)})
			})
		})
	}
	all.Wait()
}

// sound fails unless the first manager still runs and no reconcile has panicked.
func (s *suite) sound() {
	s.Helper()
	if s.manager.Ended() {
		s.Fatal("the manager has ended")
	}
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", s.manager.Port))
	s.Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	s.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "controller_runtime_reconcile_panics_total") && !strings.HasSuffix(line, " 0\n") {
			s.Errorf("a reconcile has panicked: %s", line)
		}
	}
}

// class creates a MachineClass of the trial and returns its name.
func (t *trial) class(suffix string, change ...func(*machinev1.MachineClass, *corev1.Secret)) string {
	t.Helper()
	c, secret := t.Class(t.name+"-"+suffix, "small")
	for _, f := range change {
		f(c, secret)
	}
	t.Expect(t.Client.Create(t.Context(), secret)).To(Succeed())
	t.Expect(t.Client.Create(t.Context(), c)).To(Succeed())
	return c.Name
}

// specOf changes a class's provider spec.
func specOf(c *machinev1.MachineClass, change func(map[string]any)) {
	spec := map[string]any{}
	if err := json.Unmarshal(c.ProviderSpec.Raw, &spec); err != nil {
		panic(err) // the stack made it
	}
	change(spec)
	c.ProviderSpec.Raw, _ = json.Marshal(spec)
}

// placed is a change of a class that makes its VMs elsewhere.
func placed(zone, instanceType string) func(*machinev1.MachineClass, *corev1.Secret) {
	return func(c *machinev1.MachineClass, _ *corev1.Secret) {
		specOf(c, func(s map[string]any) { s["zone"], s["instanceType"] = zone, instanceType })
	}
}

// aloof is a change of a class whose VMs do not join; see join.
func aloof(_ *machinev1.MachineClass, secret *corev1.Secret) {
	secret.Data[machinev1.UserDataKey] = append(secret.Data[machinev1.UserDataKey], "join: never\n"...)
}

// join makes that many VMs of an aloof class join, or all if it is below 0, and
// returns how many there are.
func (t *trial) join(class string, most int) int {
	t.Helper()
	machines, err := t.Machines(t.Context(), t.name)
	t.Expect(err).NotTo(HaveOccurred())
	found := 0
	for i := range machines {
		if m := &machines[i]; m.Spec.Class.Name == class && m.Spec.ProviderID != "" && m.DeletionTimestamp.IsZero() &&
			found != most {
			t.kubelet(m, map[string]any{"join": "always"})
			found++
		}
	}
	return found
}

// capacity limits the VMs of a type in a zone; below 0 is no limit.
func (t *trial) capacity(zone, instanceType string, vms int) {
	t.Helper()
	t.owner(http.MethodPut, "/admin/capacity", map[string]any{"zone": zone, "instanceType": instanceType, "vms": vms})
}

// kubelet changes how the kubelet of a machine's VM does.
func (t *trial) kubelet(m *machinev1.Machine, patch map[string]any) {
	t.Helper()
	parts := strings.Split(m.Spec.ProviderID, "/")
	t.owner(http.MethodPatch, "/admin/vms/"+parts[len(parts)-1]+"/kubelet", patch)
}

// owner makes a call as the cloud's owner.
func (t *trial) owner(method, path string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	t.Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(t.Context(), method, t.Cloud.Endpoint+path, bytes.NewReader(text))
	t.Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	t.Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	t.Expect(resp.StatusCode).To(BeNumerically("<", 300), string(answer))
}

// deployment creates the trial's MachineDeployment.
func (t *trial) deployment(class string, replicas int32, surge, unavailable string,
	change ...func(*machinev1.MachineDeployment),
) *machinev1.MachineDeployment {
	t.Helper()
	d := stack.Deployment(t.name, class, replicas, surge, unavailable)
	for _, f := range change {
		f(d)
	}
	t.Expect(t.Client.Create(t.Context(), d)).To(Succeed())
	return d
}

// machine creates a Machine without owner and waits until it is Running.
func (t *trial) machine(class, suffix string, change ...func(*machinev1.Machine)) *machinev1.Machine {
	t.Helper()
	m := t.newMachine(class, suffix, change...)
	t.Expect(t.Client.Create(t.Context(), m)).To(Succeed())
	t.phase(m, machinev1.MachineRunning)
	return m
}

func (t *trial) newMachine(class, suffix string, change ...func(*machinev1.Machine)) *machinev1.Machine {
	labels := fixture.Labels[*machinev1.Machine]("trial", t.name)
	return fixture.Machine(t.name+"-"+suffix, class, append([]func(*machinev1.Machine){labels}, change...)...)
}

// phase waits until a Machine has a phase, and leaves it as it is then.
func (t *trial) phase(m *machinev1.Machine, want machinev1.MachinePhase) {
	t.Helper()
	t.until(m, fmt.Sprintf("%s becomes %q", m.Name, want), func() error {
		if got := m.Status.CurrentStatus; got.Phase != want {
			return fmt.Errorf("phase %q: %s", got.Phase, m.Status.LastOperation.Description)
		}
		return nil
	})
}

// until reads an object again and again until check is content with it.
func (t *trial) until(o client.Object, what string, check func() error) {
	t.Helper()
	t.eventually(what, func(ctx context.Context) error {
		if err := t.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		return check()
	})
}

// edit changes an object.
func (t *trial) edit(o client.Object, change func()) {
	t.Helper()
	t.Expect(t.Edit(t.Context(), o, change)).To(Succeed())
}

// settled waits until a deployment has what its spec asks for and nothing else,
// and returns its Machines, sorted by name.
func (t *trial) settled(d *machinev1.MachineDeployment) []machinev1.Machine {
	t.Helper()
	return t.settledWith(d, nil)
}

// settledWith is settled, and does something with each look.
func (t *trial) settledWith(d *machinev1.MachineDeployment, meanwhile func()) []machinev1.Machine {
	t.Helper()
	var machines []machinev1.Machine
	t.until(d, "deployment "+d.Name+" settles", func() error {
		var err error
		if machines, err = t.Machines(t.Context(), d.Name); err != nil {
			return err
		}
		if meanwhile != nil {
			meanwhile()
		}
		return whole(d, machines)
	})
	slices.SortFunc(machines, func(a, b machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return machines
}

// whole says what a deployment lacks.
func whole(d *machinev1.MachineDeployment, machines []machinev1.Machine) error {
	running := 0
	for i := range machines {
		m := &machines[i]
		if m.Status.CurrentStatus.Phase == machinev1.MachineRunning && m.DeletionTimestamp.IsZero() &&
			m.Spec.Class.Name == d.Spec.Template.Spec.Class.Name {
			running++
		}
	}
	s, want := &d.Status, d.Spec.Replicas
	if s.ObservedGeneration < d.Generation || s.Replicas != want || s.UpdatedReplicas != want ||
		s.AvailableReplicas != want ||
		len(machines) != int(want) || running != int(want) {
		return fmt.Errorf("observed %d of %d; replicas %d, updated %d, available %d; %d Machines, %d Running of class %s; "+
			"want %d; %s", s.ObservedGeneration, d.Generation,
			s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, len(
				machines), running, d.Spec.Template.Spec.Class.Name, want, conditionsText(d))
	}
	return nil
}

// sets returns the deployment's sets, the oldest first.
func (t *trial) sets(d *machinev1.MachineDeployment) []machinev1.MachineSet {
	t.Helper()
	sets, err := t.setsOf(t.Context(), d.Name)
	t.Expect(err).NotTo(HaveOccurred())
	slices.SortFunc(sets, func(a, b machinev1.MachineSet) int {
		return strings.Compare(a.Annotations[machinev1.RevisionAnnotation], b.Annotations[machinev1.RevisionAnnotation])
	})
	return sets
}

// node returns the Node of a Machine.
func (t *trial) node(m *machinev1.Machine) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	t.Expect(t.Client.Get(t.Context(), client.ObjectKey{Name: m.Labels[machinev1.NodeLabel]}, node)).To(Succeed())
	return node
}

// goes waits until an object is gone.
func (t *trial) goes(o client.Object) {
	t.Helper()
	t.eventually(o.GetName()+" goes", func(ctx context.Context) error { return t.absent(ctx, o) })
}

// remove deletes an object and waits until it is gone.
func (t *trial) remove(o client.Object, opts ...client.DeleteOption) {
	t.Helper()
	t.Expect(t.Client.Delete(t.Context(), o, opts...)).To(Succeed())
	t.goes(o)
}

// heard waits for an Event about an object whose message has all the texts.
func (t *trial) heard(o client.Object, reason string, texts ...string) {
	t.Helper()
	t.eventually(fmt.Sprintf("Event %s about %s with %q", reason, o.GetName(), texts), func(ctx context.Context) error {
		events, err := t.Events(ctx, reason, o.GetName())
		if err != nil {
			return err
		}
		var seen []string
		for i := range events {
			if hasAll(events[i].Message, texts) {
				return nil
			}
			seen = append(seen, events[i].Message)
		}
		return fmt.Errorf("there is only %q", seen)
	})
}

// says waits for a condition in status.progress.conditions whose message has all the texts.
func (t *trial) says(o client.Object, kind string, status metav1.ConditionStatus, reason string, texts ...string) {
	t.Helper()
	t.until(o, fmt.Sprintf("%s says %s=%s %s with %q", o.GetName(), kind, status, reason, texts), func() error {
		c := meta.FindStatusCondition(progressOf(o), kind)
		if c == nil || c.Status != status || c.Reason != reason || !hasAll(c.Message, texts) {
			return fmt.Errorf("it says %s", conditionsText(o))
		}
		return nil
	})
}

func progressOf(o client.Object) []metav1.Condition {
	var p *machinev1.Progress
	switch o := o.(type) {
	case *machinev1.Machine:
		p = o.Status.Progress
	case *machinev1.MachineSet:
		p = o.Status.Progress
	case *machinev1.MachineDeployment:
		p = o.Status.Progress
	}
	if p == nil {
		return nil
	}
	return p.Conditions
}

func conditionsText(o client.Object) string {
	var text []string
	for _, c := range progressOf(o) {
		text = append(text, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(text, "; ")
}

func hasAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}

// uids are what identifies objects through all changes.
func uids(machines []machinev1.Machine) map[types.UID]bool {
	all := map[types.UID]bool{}
	for i := range machines {
		all[machines[i].UID] = true
	}
	return all
}

// progressing is MCM's condition of that type.
func progressing(d *machinev1.MachineDeployment) machinev1.MachineDeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == machinev1.MachineDeploymentProgressing {
			return c
		}
	}
	return machinev1.MachineDeploymentCondition{}
}

// reaches waits until the condition Progressing has a status and reason.
func (t *trial) reaches(d *machinev1.MachineDeployment, status machinev1.ConditionStatus, reason string) {
	t.Helper()
	t.until(d, fmt.Sprintf("Progressing is %s, %s", status, reason), func() error {
		if c := progressing(d); c.Status != status || c.Reason != reason {
			return fmt.Errorf("it is %s, %s", c.Status, c.Reason)
		}
		return nil
	})
}

func lasting(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}
