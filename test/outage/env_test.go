package outage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machine"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/metrics"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/orphan"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

const (
	namespace = "default"
	region    = "sim-1"
)

func zones() []string { return []string{"sim-1a", "sim-1b", "sim-1c"} }

// env is a cluster with its nodes, a cloud, and the manager with all native
// controllers, on a time of its own. Nothing in it is random.
type env struct {
	*testing.T
	now     time.Time
	server  *model.Server
	cloud   *sim.Cloud
	scheme  *runtime.Scheme
	options machine.Options
	uids    uint64
	silent  func(node *corev1.Node) bool // whose kubelet is not heard

	mirror  *mirror.Mirror
	queues  []*queue
	metrics *prometheus.Registry
	starts  int
	frozen  func() bool
	standby bool                    // no lease is held: the metrics show no objects
	stuck   map[string]bool         // controllers that do nothing, by name
	refuses func(mirror.Call) error // what the API server answers instead; nil answers all

	events   map[string]int // by reason
	needless []string       // machines that were deleted although their VM ran
	deleted  int
	writes   int
}

func newEnv(t *testing.T, o machine.Options) *env {
	t.Helper()
	w := &env{
		T: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), scheme: runtime.NewScheme(), options: o,
		events: map[string]int{},
	}
	w.silent = func(*corev1.Node) bool { return false }
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.server = model.New(func() time.Time { return w.now }, func() types.UID {
		w.uids++
		return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", w.uids))
	})
	serve(w.server)
	w.server.OnChange(w.changed)
	settings := sim.DefaultSettings()
	settings.BootTime, settings.DeleteTime = sim.Duration(30*time.Second), sim.Duration(20*time.Second)
	w.cloud = sim.New(sim.Options{Clock: clockOf{w}, Settings: settings})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "access"}, Data: map[string][]byte{
		"accountID": []byte("demo"), "secretKey": []byte("demo-secret"),
		machinev1.UserDataKey: []byte("nodeName: " + machinev1.MachineNamePlaceholder),
	}})
	for _, zone := range zones() {
		w.create(classOf(zone))
	}
	w.start()
	return w
}

// clockOf is the env's time as controllers read it.
type clockOf struct{ env *env }

func (c clockOf) Now() time.Time                  { return c.env.now }
func (c clockOf) Since(t time.Time) time.Duration { return c.env.now.Sub(t) }

func serve(s *model.Server) {
	native := func(name, plural string) model.Kind {
		return model.Kind{
			GVK: machinev1.GroupVersion.WithKind(name), Resource: machinev1.GroupVersion.WithResource(plural).GroupResource(),
			Namespaced: true, Generation: true, Status: name != "MachineClass",
		}
	}
	builtIn := func(group schema.GroupVersion, name, plural string, namespaced bool) model.Kind {
		return model.Kind{
			GVK: group.WithKind(name), Resource: group.WithResource(plural).GroupResource(),
			Namespaced: namespaced,
		}
	}
	core, storage, policy := corev1.SchemeGroupVersion, storagev1.SchemeGroupVersion, policyv1.SchemeGroupVersion
	node := builtIn(core, "Node", "nodes", false)
	node.Status, node.KeepsStatus = true, true
	s.Serve(native("MachineClass", "machineclasses"), &machinev1.MachineClass{}, &machinev1.MachineClassList{})
	s.Serve(native("MachineDeployment", "machinedeployments"), &machinev1.MachineDeployment{},
		&machinev1.MachineDeploymentList{})
	s.Serve(native("MachineSet", "machinesets"), &machinev1.MachineSet{}, &machinev1.MachineSetList{})
	s.Serve(native("Machine", "machines"), &machinev1.Machine{}, &machinev1.MachineList{})
	s.Serve(builtIn(core, "Secret", "secrets", true), &corev1.Secret{}, &corev1.SecretList{})
	s.Serve(node, &corev1.Node{}, &corev1.NodeList{})
	s.Serve(builtIn(core, "Pod", "pods", true), &corev1.Pod{}, &corev1.PodList{})
	s.Serve(builtIn(core, "PersistentVolume", "persistentvolumes", false), &corev1.PersistentVolume{},
		&corev1.PersistentVolumeList{})
	s.Serve(builtIn(core, "PersistentVolumeClaim", "persistentvolumeclaims", true), &corev1.PersistentVolumeClaim{},
		&corev1.PersistentVolumeClaimList{})
	s.Serve(builtIn(storage, "VolumeAttachment", "volumeattachments", false), &storagev1.VolumeAttachment{},
		&storagev1.VolumeAttachmentList{})
	s.Serve(builtIn(policy, "PodDisruptionBudget", "poddisruptionbudgets", true), &policyv1.PodDisruptionBudget{},
		&policyv1.PodDisruptionBudgetList{})
}

func classOf(zone string) *machinev1.MachineClass {
	c := fixture.MachineClass(zone, fixture.ProviderSpec(map[string]any{
		"endpoint": "http://cloud.invalid", "region": region, "zone": zone,
		"tags": map[string]string{"kubernetes.io/cluster/outage": "1", "kubernetes.io/role/node": "1"},
	}), fixture.In[*machinev1.MachineClass](namespace))
	c.SecretRef.Name = "access"
	return c
}

func (w *env) create(o client.Object) {
	w.Helper()
	if _, err := w.server.Create("user", o); err != nil {
		w.Fatal(err)
	}
}

// pool makes a MachineDeployment in a zone.
func (w *env) pool(name, zone string, replicas int32) {
	w.Helper()
	w.create(fixture.MachineDeployment(name, zone, replicas, fixture.In[*machinev1.MachineDeployment](namespace)))
}

// start runs a new manager; the one before is gone with all that it remembered.
func (w *env) start() {
	w.Helper()
	w.mirror = mirror.New(w.server, func(*model.Kind) int { return 0 })
	wire := func(_ context.Context, c mirror.Call, effect func(string) error) error {
		if err := w.refusal(c); err != nil {
			return err
		}
		if !c.Read {
			w.writes++
		}
		return effect("manager")
	}
	cached := &mirror.Client{Server: w.server, Mirror: w.mirror, Wire: wire, Schema: w.scheme}
	live := &mirror.Client{Server: w.server, Wire: wire, Schema: w.scheme}
	w.metrics, w.starts = prometheus.NewRegistry(), w.starts+1
	measured := wrap.NewRecorder(w.metrics).Middleware(wrap.Clock{Now: func() time.Time { return w.now }})
	clouds, err := cloud.NewRegistry([]cloud.Driver{w.cloud.Driver()}, func() time.Time { return w.now }, measured)
	if err != nil {
		w.Fatal(err)
	}
	durations := w.collect(cached)
	mgr := &mirror.Manager{Client: cached}
	err = controllers.Setup(w.Context(), mgr, controllers.Deps{
		Client: cached, Live: live, Target: &controllers.Target{Client: cached, Live: live, Cache: w.mirror},
		Namespace: namespace,
		Clouds:    clouds, Clock: clockOf{w}, Fence: fence.Alone(clockOf{w}), Rand: rand.NewChaCha8([32]byte{}),
		Metrics: w.metrics, Durations: durations, OnFrozenFunc: func(f func() bool) { w.frozen = f },
		Events:  func(string) record.EventRecorder { return recorder{w} },
		Workers: func(string) int { return 1 },
		Options: controllers.Options{
			Machine: w.options, APIServer: apiserver.Options{Period: time.Minute, Timeout: 30 * time.Second},
			Orphans: orphan.Options{Period: 30 * time.Minute}, SafetyUp: 2, SafetyDown: 1, OvershootPeriod: time.Minute,
		},
	}, []string{
		"machineclass", "machine", "machineset", "machinedeployment", "node",
		"machinesafetyapiserver", "machinesafetyorphanvms",
	})
	if err != nil {
		w.Fatal(err)
	}
	w.queues = nil
	for _, c := range mgr.Controllers {
		q := newQueue(w, c)
		w.queues = append(w.queues, q)
		if err := c.Start(w.Context(), q); err != nil {
			w.Fatal(err)
		}
	}
}

// refusal is what the API server answers instead; nil if it does what it is asked for.
func (w *env) refusal(c mirror.Call) error {
	if w.refuses == nil {
		return nil
	}
	return w.refuses(c)
}

// collect registers what the manager does, and returns what measures durations.
func (w *env) collect(cached client.Reader) *metrics.Durations {
	scrape := func() (context.Context, context.CancelFunc) { return context.WithCancel(w.Context()) }
	leads := func() bool { return !w.standby }
	durations := metrics.NewDurations(cached, scrape)
	w.metrics.MustRegister(durations, metrics.NewBuildInfo("v0.0.0", "none"),
		metrics.NewObjects(cached, scrape, leads, func() bool { return w.frozen() }),
		metrics.NewLeading([]string{string(controllers.Native)}, leads))
	return durations
}

// run lets time pass.
func (w *env) run(d time.Duration) {
	w.Helper()
	const longest = 30 * time.Second // between two looks at the cloud
	for end := w.now.Add(d); w.now.Before(end); {
		w.rest()
		next := w.now.Add(longest)
		for _, q := range w.queues {
			if at := q.ripen(); !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if next.After(end) {
			next = end
		}
		w.now = next
	}
	w.rest()
}

// rest does all that can be done now.
func (w *env) rest() {
	w.Helper()
	w.look()
	for range 1000 {
		worked := false
		for _, i := range w.mirror.Informers() {
			for ; i.Behind() > 0; worked = true {
				i.Next()
			}
		}
		for _, q := range w.queues {
			worked = !w.standby && !w.stuck[q.controller.Name] && q.work() || worked
		}
		if !worked {
			return
		}
	}
	w.Fatal("it does not come to rest")
}

// look has the kubelets speak: those of VMs that run, as far as they are heard.
func (w *env) look() {
	w.Helper()
	w.cloud.Tick()
	running := map[string]bool{}
	for _, r := range w.cloud.VMs() {
		if r.VM.State == sim.StateRunning {
			running[r.ID] = true
			w.join(r)
		}
	}
	for _, o := range w.server.KindOf(&corev1.Node{}).All() {
		w.speak(o.(*corev1.Node), running)
	}
}

func (w *env) join(r sim.Resource) {
	w.Helper()
	nodes := w.server.KindOf(&corev1.Node{})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   r.Name(),
		Labels: map[string]string{corev1.LabelTopologyZone: r.Zone},
	}}
	n.Spec.ProviderID = sim.ProviderID(r.Zone, r.ID)
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(w.now),
	}}
	if nodes.Look(types.NamespacedName{Name: n.Name}) == nil && !w.silent(n) {
		w.create(n)
	}
}

// speak sets the readiness of a node: Unknown while it is not heard.
func (w *env) speak(node *corev1.Node, running map[string]bool) {
	w.Helper()
	want := corev1.ConditionTrue
	if w.silent(node) || !running[idOf(node.Spec.ProviderID)] {
		want = corev1.ConditionUnknown
	}
	if node.Status.Conditions[0].Status == want || !node.DeletionTimestamp.IsZero() {
		return
	}
	changed := node.DeepCopy()
	changed.Status.Conditions[0].Status, changed.Status.Conditions[0].LastTransitionTime = want, metav1.NewTime(w.now)
	if _, err := w.server.Update("kubelet", changed, true); err != nil {
		w.Fatal(err)
	}
}

func idOf(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }

// changed takes note of machines that begin to go.
func (w *env) changed(c model.Change) {
	m, ok := c.New.(*machinev1.Machine)
	if !ok || m.DeletionTimestamp.IsZero() || c.Old == nil || !c.Old.GetDeletionTimestamp().IsZero() {
		return
	}
	w.deleted++
	if vm, _, known := w.cloud.Look(idOf(m.Spec.ProviderID)); known && vm.VM.State == sim.StateRunning {
		w.needless = append(w.needless, m.Name)
	}
}

// machines are all Machines, by name.
func (w *env) machines() map[string]*machinev1.Machine {
	all := map[string]*machinev1.Machine{}
	for _, o := range w.server.KindOf(&machinev1.Machine{}).All() {
		all[o.GetName()] = o.(*machinev1.Machine)
	}
	return all
}

// phases counts machines by phase.
func (w *env) phases() map[machinev1.MachinePhase]int {
	count := map[machinev1.MachinePhase]int{}
	for _, m := range w.machines() {
		count[m.Status.CurrentStatus.Phase]++
	}
	return count
}

// vmsIn are the running VMs of a zone, in the order of making.
func (w *env) vmsIn(zone string) []sim.Resource {
	return slices.DeleteFunc(w.cloud.VMs(), func(r sim.Resource) bool {
		return r.Zone != zone || r.VM.State != sim.StateRunning
	})
}

// kept is what the metric says.
func (w *env) kept() int {
	w.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "mcm_machine_outage_kept_machines" {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return int(sum)
}

// recorder counts Events.
type recorder struct{ env *env }

func (r recorder) Event(_ runtime.Object, _, reason, _ string) { r.env.events[reason]++ }

func (r recorder) Eventf(_ runtime.Object, _, reason, _ string, _ ...any) { r.env.events[reason]++ }

func (r recorder) AnnotatedEventf(_ runtime.Object, _ map[string]string, _, reason, _ string, _ ...any) {
	r.env.events[reason]++
}
