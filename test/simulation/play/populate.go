package play

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/invariant"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/plan"
)

// Names in the world.
const (
	namespace = "default"
	region    = "sim-1"
	account   = "demo"
	secretKey = "demo-secret"
	endpoint  = "http://cloud.invalid"
	user      = "user"
)

// ownership are the tags of all that the cluster has in the cloud.
func ownership() map[string]string {
	return map[string]string{"kubernetes.io/cluster/simulation": "1", "kubernetes.io/role/node": "1"}
}

func zones() []string { return []string{"sim-1a", "sim-1b", "sim-1c"} }

// newWorld is a world in which nothing exists yet.
func newWorld(p Plan, verbose bool) *World {
	const stream = 2 // the plan has the first
	w := &World{
		seed: p.Seed, plan: p, rng: rand.New(rand.NewPCG(p.Seed, stream)), now: epoch(),
		verbose: verbose,
		weather: newWeather(), kubelets: map[string]*kubelet{}, parsed: map[string]parsed{}, pods: workload{wanted: p.Pods},
		wasCopied: map[string]bool{}, gone: map[string]*machinev1.Machine{},
	}
	w.scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme,
		bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
	} {
		if err := add(w.scheme); err != nil {
			panic(err)
		}
	}
	w.Control = model.New(w.Now, w.newUID)
	w.Target = w.Control
	w.settleHomes()
	if p.Split {
		w.Target = model.New(w.Now, w.newUID)
		serveSecrets(w.Target)
	}
	serveNodes(w.Target)
	w.Target.Evict = w.mayEvict
	settings := sim.DefaultSettings()
	settings.BootTime, settings.DeleteTime = sim.Duration(p.Boot), sim.Duration(p.Delete)
	settings.Settle = sim.Duration(2 * time.Second)
	w.Cloud = sim.New(sim.Options{
		Clock: clockOf{w}, Seed: p.Seed, Settings: settings, OnChange: func(r sim.Resource) { w.news = append(w.news, r) },
	})
	w.driver = sim.NewDriver(cloudWire{w, w.Cloud.Transport()})
	w.check = invariant.New(invariant.World{
		Control: w.Control, Homes: w.managementServers(), Target: w.Target, Cloud: w.Cloud, Now: w.Now, Violate: w.violate,
		Account:    account,
		NativeRuns: len(p.Pools) > 0, Lag: p.ReactionTime() - plan.ReactionTime + time.Minute,
		Health: w.healthOf, ReactionTime: p.ReactionTime(), Lags: p.ReactionTime() > plan.ReactionTime || p.IgnoreOutages,
		DrainTimeout:  w.options().Machine.DrainTimeout,
		HealthTimeout: w.options().Machine.HealthTimeout,
	})
	for _, s := range w.servers() {
		s.OnChange(w.changed)
	}
	return w
}

func machineKind(name, plural string) model.Kind {
	return model.Kind{
		GVK: machinev1.GroupVersion.WithKind(name), Resource: machinev1.GroupVersion.WithResource(plural).GroupResource(),
		Namespaced: true, Generation: true, Status: true,
	}
}

func serveClasses(s *model.Server) {
	class := machineKind("MachineClass", "machineclasses")
	class.Status = false
	s.Serve(class, &machinev1.MachineClass{}, &machinev1.MachineClassList{})
}

func serveMachines(s *model.Server) {
	s.Serve(machineKind("MachineDeployment", "machinedeployments"), &machinev1.MachineDeployment{},
		&machinev1.MachineDeploymentList{})
	s.Serve(machineKind("MachineSet", "machinesets"), &machinev1.MachineSet{}, &machinev1.MachineSetList{})
	s.Serve(machineKind("Machine", "machines"), &machinev1.Machine{}, &machinev1.MachineList{})
}

func builtIn(group schema.GroupVersion, name, plural string) model.Kind {
	return model.Kind{GVK: group.WithKind(name), Resource: group.WithResource(plural).GroupResource()}
}

func serveSecrets(s *model.Server) {
	k := builtIn(corev1.SchemeGroupVersion, "Secret", "secrets")
	k.Namespaced = true
	s.Serve(k, &corev1.Secret{}, &corev1.SecretList{})
	k = builtIn(corev1.SchemeGroupVersion, "ConfigMap", "configmaps")
	k.Namespaced = true
	s.Serve(k, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	k = builtIn(coordinationv1.SchemeGroupVersion, "Lease", "leases")
	k.Namespaced = true
	s.Serve(k, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
}

func serveNodes(s *model.Server) {
	core, storage := corev1.SchemeGroupVersion, storagev1.SchemeGroupVersion
	node, pod := builtIn(core, "Node", "nodes"), builtIn(core, "Pod", "pods")
	node.Status, node.KeepsStatus = true, true
	pod.Namespaced, pod.Status, pod.KeepsStatus, pod.Grace = true, true, true, true
	s.Serve(node, &corev1.Node{}, &corev1.NodeList{})
	s.Serve(pod, &corev1.Pod{}, &corev1.PodList{})
	s.Serve(builtIn(core, "PersistentVolume", "persistentvolumes"), &corev1.PersistentVolume{},
		&corev1.PersistentVolumeList{})
	claim := builtIn(core, "PersistentVolumeClaim", "persistentvolumeclaims")
	claim.Namespaced = true
	s.Serve(claim, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaimList{})
	s.Serve(builtIn(storage, "VolumeAttachment", "volumeattachments"), &storagev1.VolumeAttachment{},
		&storagev1.VolumeAttachmentList{})
	budget := builtIn(policyv1.SchemeGroupVersion, "PodDisruptionBudget", "poddisruptionbudgets")
	budget.Namespaced = true
	s.Serve(budget, &policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{})
}

// populate creates what the user has at the beginning.
func (w *World) populate() {
	w.create(secretOf())
	for i := range classes {
		w.create(w.classOf(i))
	}
	for i := range w.plan.Pools {
		w.create(w.deploymentOf(i))
	}
	if len(w.plan.Workers) > 0 {
		w.populateClusterAPI()
	}
}

// create creates something in the name of the user.
func (w *World) create(o client.Object) { w.createAt(w.Control, o) }

func (w *World) createAt(s *model.Server, o client.Object) {
	if _, err := s.Create(user, o); err != nil {
		w.trace("user: %v", err)
	}
}

func secretOf() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "access"}, Data: map[string][]byte{
		"accountID": []byte(account), "secretKey": []byte(secretKey),
		machinev1.UserDataKey: fmt.Appendf(nil, "token: %s\nnodeName: %s\n", machinev1.BootstrapTokenPlaceholder,
			machinev1.MachineNamePlaceholder),
	}}
}

// classes is how many classes there are. They differ in their zones and types.
const classes = plan.Classes

func className(i int) string { return fmt.Sprintf("class-%c", 'a'+i%classes) }

// classNames are the names of all classes.
func classNames() []string {
	var names []string
	for i := range classes {
		names = append(names, className(i))
	}
	return names
}

func (w *World) classOf(i int) *machinev1.MachineClass {
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: className(i)}, Provider: "sim"}
	c.SecretRef = &corev1.SecretReference{Namespace: namespace, Name: "access"}
	c.ProviderSpec.Raw = w.specOf(i, "linux-1")
	return c
}

// keeping are the worlds of which one has classes whose second disk outlives its VMs.
const keeping = 8

func (w *World) specOf(i int, image string) []byte {
	zone, more := w.zonesOf(i % classes)
	disks := []map[string]any{{"sizeGiB": 10}, {"sizeGiB": 5}}[:1+i%2]
	if i%2 == 1 && image == "linux-1" && w.plan.Seed%keeping == 5 { // an edited class says nothing of that
		disks[1]["keep"] = true
	}
	text, err := json.Marshal(map[string]any{
		"endpoint": endpoint, "region": region, "zone": zone, "zones": more, "instanceType": "small", "image": image,
		"tags":  ownership(),
		"disks": disks, "forwarding": i == 2,
	})
	if err != nil {
		panic(err)
	}
	return text
}

// askedZone is a zone that every class takes in worlds whose classes name several.
const askedZone = "sim-1b"

// zonesOf returns the zones of a class.
func (w *World) zonesOf(i int) (zone string, more []string) {
	if !w.plan.Zones {
		return zones()[i], nil
	}
	switch (i + w.rezoned[i]) % classes {
	case 0:
		return "sim-1a", zones()
	case 1:
		return "", []string{askedZone, "sim-1c"}
	}
	return askedZone, nil
}

// rezone changes the zones of a class for good.
func (w *World) rezone(e Event) {
	i := int(e.N) % classes
	w.rezoned[i]++
	w.repairClass(i)
}

func poolName(i int) string { return fmt.Sprintf("pool-%d", i) }

func (w *World) deploymentOf(i int) *machinev1.MachineDeployment {
	p := w.plan.Pools[i]
	labels := map[string]string{machinev1.NameLabel: poolName(i)}
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: poolName(i), Namespace: namespace}}
	if p.Fallback {
		machinev1.SetAnnotation(d, machinev1.SurgeFallbackAnnotation, "true")
	}
	if w.plan.Fallbacks {
		machinev1.SetAnnotation(d, machinev1.FallbackClassesAnnotation, strings.Join(classNames(), ","))
	}
	if p.Replacements != "" {
		machinev1.SetAnnotation(d, machinev1.MaxReplacementsAnnotation, p.Replacements)
	}
	d.Spec.Replicas = p.Replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Strategy.Type = machinev1.RollingUpdateStrategyType
	if p.Recreate {
		d.Spec.Strategy.Type = machinev1.RecreateStrategyType
	} else {
		d.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{
			UpdateConfiguration: machinev1.UpdateConfiguration{
				MaxSurge: new(intstr.FromInt32(p.Surge)), MaxUnavailable: new(intstr.FromInt32(p.Unavailable)),
			},
		}
	}
	d.Spec.Template.Labels = map[string]string{machinev1.NameLabel: poolName(i)}
	d.Spec.Template.Spec.Class = machinev1.ClassSpec{
		APIGroup: machinev1.GroupVersion.Group,
		Kind:     machinev1.MachineClassKind, Name: className(p.Class),
	}
	d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"pool": poolName(i)}
	return d
}
