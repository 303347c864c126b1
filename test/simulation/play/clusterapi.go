package play

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// Names of what there is of Cluster API.
const (
	clusterName    = "c1"
	givenSecret    = "given-kubeconfig"
	bootTemplate   = "boot"
	spareClass     = "class-spare" // of no Cluster, in every management cluster: its collector looks at the same account
	spareAccess    = "access-spare"
	kubeconfigText = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: c}}]
clusters: [{name: c, cluster: {server: "https://workload.invalid:6443"}}]
users: [{name: c, user: {token: given}}]
`
)

func workersName(i int) string { return fmt.Sprintf("workers-%d", i) }

// serveClusterAPI serves the kinds of Cluster API and of its providers here.
func serveClusterAPI(s *model.Server) {
	of := func(gv schema.GroupVersion, name, plural string) model.Kind {
		return model.Kind{
			GVK: gv.WithKind(name), Resource: gv.WithResource(plural).GroupResource(), Namespaced: true,
			Generation: true, Status: true,
		}
	}
	core, infra, boot, plane := clusterv1.GroupVersion, infrav1.GroupVersion, bootstrapv1.GroupVersion,
		controlplanev1.GroupVersion
	s.Serve(of(core, "Cluster", "clusters"), &clusterv1.Cluster{}, &clusterv1.ClusterList{})
	s.Serve(of(core, "MachineDeployment", "machinedeployments"), &clusterv1.MachineDeployment{},
		&clusterv1.MachineDeploymentList{})
	s.Serve(of(core, "MachineSet", "machinesets"), &clusterv1.MachineSet{}, &clusterv1.MachineSetList{})
	s.Serve(of(core, "Machine", "machines"), &clusterv1.Machine{}, &clusterv1.MachineList{})
	s.Serve(of(core, "MachineHealthCheck", "machinehealthchecks"), &clusterv1.MachineHealthCheck{},
		&clusterv1.MachineHealthCheckList{})
	s.Serve(of(infra, "MCMCluster", "mcmclusters"), &infrav1.MCMCluster{}, &infrav1.MCMClusterList{})
	s.Serve(of(infra, "MCMMachine", "mcmmachines"), &infrav1.MCMMachine{}, &infrav1.MCMMachineList{})
	s.Serve(of(infra, "MCMMachineTemplate", "mcmmachinetemplates"), &infrav1.MCMMachineTemplate{},
		&infrav1.MCMMachineTemplateList{})
	s.Serve(of(boot, "MCMConfig", "mcmconfigs"), &bootstrapv1.MCMConfig{}, &bootstrapv1.MCMConfigList{})
	s.Serve(of(boot, "MCMConfigTemplate", "mcmconfigtemplates"), &bootstrapv1.MCMConfigTemplate{},
		&bootstrapv1.MCMConfigTemplateList{})
	s.Serve(of(plane, "MCMExternalControlPlane", "mcmexternalcontrolplanes"),
		&controlplanev1.MCMExternalControlPlane{}, &controlplanev1.MCMExternalControlPlaneList{})
}

// populateClusterAPI creates what a user of Cluster API has at the beginning.
func (w *World) populateClusterAPI() {
	for _, h := range w.homes {
		spare := secretOf()
		spare.Name = spareAccess
		class := w.classOf(0)
		class.Name, class.SecretRef = spareClass, &corev1.SecretReference{Namespace: namespace, Name: spareAccess}
		w.createAt(h.server, spare)
		w.createAt(h.server, class)
	}
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: givenSecret},
		Data:       map[string][]byte{"value": []byte(kubeconfigText)},
	})
	w.populateCluster(w.Control)
}

// machineTemplate returns the template of machines of a class, which has its name.
func (w *World) machineTemplate(class string) *infrav1.MCMMachineTemplate {
	t := &infrav1.MCMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: class}}
	t.Spec.Template.Spec.MachineClassRef.Name = class
	for _, other := range classNames() {
		if w.plan.Fallbacks && other != class {
			refs := &t.Spec.Template.Spec.FallbackClassRefs
			*refs = append(*refs, infrav1.MachineClassReference{Name: other})
		}
	}
	t.Spec.Template.Spec.NodeTemplate.Labels = map[string]string{"template": class}
	return t
}

// populateCluster creates a Cluster with its workers.
func (w *World) populateCluster(s *model.Server) {
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	for i := range classes {
		w.createAt(s, w.machineTemplate(className(i)))
	}
	boot := &bootstrapv1.MCMConfigTemplate{ObjectMeta: at(bootTemplate)}
	boot.Spec.Template.Spec.MachineClassRef = &bootstrapv1.NameReference{Name: className(0)}
	w.createAt(s, boot)
	w.createAt(s, &infrav1.MCMCluster{ObjectMeta: at(clusterName)})
	plane := &controlplanev1.MCMExternalControlPlane{ObjectMeta: at(clusterName)}
	plane.Spec.KubeconfigSecretRef = &controlplanev1.NameReference{Name: givenSecret}
	w.createAt(s, plane)
	cluster := &clusterv1.Cluster{ObjectMeta: at(clusterName)}
	cluster.Spec.InfrastructureRef = refTo(infrav1.GroupVersion.Group, "MCMCluster", clusterName)
	cluster.Spec.ControlPlaneRef = refTo(controlplanev1.GroupVersion.Group, "MCMExternalControlPlane", clusterName)
	w.createAt(s, cluster)
	for i, p := range w.plan.Workers {
		d := &clusterv1.MachineDeployment{ObjectMeta: at(workersName(i))}
		d.Spec.ClusterName, d.Spec.Replicas = clusterName, new(p.Replicas)
		d.Spec.Template.Spec.ClusterName, d.Spec.Template.Spec.Version = clusterName, kubeletVersion
		d.Spec.Template.Spec.InfrastructureRef = refTo(infrav1.GroupVersion.Group, "MCMMachineTemplate", className(p.Class))
		d.Spec.Template.Spec.Bootstrap.ConfigRef = refTo(bootstrapv1.GroupVersion.Group, "MCMConfigTemplate", bootTemplate)
		if w.plan.Zones && i%2 == 0 {
			d.Spec.Template.Spec.FailureDomain = askedZone
		}
		w.createAt(s, d)
	}
}

func refTo(group, kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: name}
}

// clusterHome is where the Cluster lives; nil if it does not exist, or is being
// moved, or its API server is down.
func (w *World) clusterHome() *home {
	if w.moving || w.isDown(w.lives.server) {
		return nil
	}
	if _, found := find[*clusterv1.Cluster](w.lives.server, clusterName); !found {
		return nil
	}
	return w.lives
}

// wakeCores has Cluster API look at what has changed.
func (w *World) wakeCores(c model.Change) {
	for _, h := range w.homes {
		if h.core == nil {
			continue
		}
		switch c.Object().(type) {
		case *corev1.Node:
			h.core.wake()
		case *clusterv1.Cluster, *clusterv1.MachineDeployment, *clusterv1.MachineSet, *clusterv1.Machine,
			*infrav1.MCMCluster, *infrav1.MCMMachine,
			*infrav1.MCMMachineTemplate, *bootstrapv1.MCMConfig, *bootstrapv1.MCMConfigTemplate,
			*controlplanev1.MCMExternalControlPlane:
			if h.server.KindOf(c.Object()) == c.Kind {
				h.core.wake()
			}
		}
	}
}

// wakeConnections has the managers look after their connections when a Cluster or
// its kubeconfig has changed.
func (w *World) wakeConnections(c model.Change) {
	switch o := c.Object().(type) {
	case *clusterv1.Cluster:
	case *corev1.Secret:
		if o.Labels[clusterv1.ClusterNameLabel] == "" {
			return
		}
	default:
		return
	}
	w.reconnect(w.between(time.Second, connecting))
}

// reconnect has all managers look after their connections in a while.
func (w *World) reconnect(after time.Duration) {
	for _, p := range w.processes {
		if p.connections != nil {
			p.connections.soon(after)
		}
	}
}

// classHome is the server on which a class is; the first one if there is none.
func (w *World) classHome(name string) *model.Server {
	for _, h := range w.homes {
		if _, found := find[*machinev1.MachineClass](h.server, name); found {
			return h.server
		}
	}
	return w.Control
}
