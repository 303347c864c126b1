package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const garden = "garden"

// nativePool is a pool of three machines that have joined within five minutes, with its class, nodes, and
// pods that a budget keeps.
func nativePool() []client.Object {
	d := fixture.MachineDeployment("workers", "small", 3, fixture.In[*machinev1.MachineDeployment](garden),
		fixture.RollingUpdate("1", "0"))
	set := fixture.MachineSet("workers-abcde", "small", 3, fixture.In[*machinev1.MachineSet](garden),
		func(s *machinev1.MachineSet) {
			s.Spec.Template, s.Spec.Selector, s.Labels = d.Spec.Template, d.Spec.Selector, d.Spec.Template.Labels
			s.Annotations = map[string]string{machinev1.DesiredReplicasAnnotation: "3", machinev1.MaxReplicasAnnotation: "4"}
			s.Status = machinev1.MachineSetStatus{Replicas: 3, AvailableReplicas: 3}
		}, fixture.OwnedBy[*machinev1.MachineSet](*metav1.NewControllerRef(d,
			machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))))
	objects := []client.Object{d, set, fixture.MachineClass("small", fixture.In[*machinev1.MachineClass](garden))}
	for i := range 3 {
		objects = append(objects, machineOf(set, i)...)
	}
	return append(objects, budget()...)
}

// machineOf is a Machine of a set that runs, and its Node.
func machineOf(set *machinev1.MachineSet, i int) []client.Object {
	name := fmt.Sprintf("%s-%d", set.Name, i)
	owner := *metav1.NewControllerRef(set, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))
	m := fixture.Machine(name, "small", fixture.In[*machinev1.Machine](garden),
		fixture.OwnedBy[*machinev1.Machine](owner), func(m *machinev1.Machine) {
			m.Labels = map[string]string{machinev1.NameLabel: "workers", machinev1.NodeLabel: "node-" + name}
			m.Spec, m.Spec.ProviderID = *set.Spec.Template.Spec.DeepCopy(), "sim:///sim-1/"+name
			m.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
			m.Status.CurrentStatus.Phase = machinev1.MachineRunning
		})
	return []client.Object{m, fixture.Node("node-"+name, func(n *corev1.Node) {
		n.CreationTimestamp = metav1.NewTime(now.Add(-55 * time.Minute))
	})}
}

// budget is a PodDisruptionBudget that allows nothing, and two pods that it covers.
func budget() []client.Object {
	objects := []client.Object{&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "web"},
		}},
	}}
	for i, node := range []string{"node-workers-abcde-0", "node-workers-abcde-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"},
		}, Spec: corev1.PodSpec{NodeName: node}}
		pod.Status.Phase = corev1.PodRunning
		objects = append(objects, pod)
	}
	return objects
}

// clusterAPIPool is a pool of two machines of Cluster API.
func clusterAPIPool() []client.Object {
	d := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: garden, Name: "blue", UID: "uid-blue"}}
	d.Spec.ClusterName, d.Spec.Replicas = "prod", new(int32(2))
	d.Spec.Selector.MatchLabels = map[string]string{"pool": "blue"}
	d.Spec.Template.Labels = map[string]string{"pool": "blue"}
	d.Spec.Template.Spec.ClusterName = "prod"
	d.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "MCMMachineTemplate", Name: "blue-v1",
	}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: garden, Name: "blue-xyz", UID: "uid-blue-xyz"}}
	set.OwnerReferences = ownedBy(d, "MachineDeployment")
	set.Spec.ClusterName, set.Spec.Replicas, set.Spec.Template = "prod", new(int32(2)), d.Spec.Template
	objects := []client.Object{d, set, fixture.Cluster("prod", fixture.In[*clusterv1.Cluster](garden))}
	for _, version := range []string{"v1", "v2"} {
		objects = append(objects, fixture.MCMMachineTemplate("blue-"+version, "prod", "small",
			fixture.In[*infrav1.MCMMachineTemplate](garden)))
	}
	for i := range 2 {
		m := fixture.CAPIMachine(fmt.Sprintf("blue-xyz-%d", i), "prod", fixture.In[*clusterv1.Machine](garden))
		m.OwnerReferences = ownedBy(set, "MachineSet")
		objects = append(objects, m)
	}
	return objects
}

func ownedBy(o client.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, clusterv1.GroupVersion.WithKind(kind))}
}

// scheme has all kinds.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// server is an API server with objects. Every write that is no dry run ends the test, and every other one
// is answered as answer says, nil being what the server does.
func server(t *testing.T, answer func(verb string, o client.Object) error, objects ...client.Object) client.WithWatch {
	t.Helper()
	for _, o := range objects {
		if o.GetUID() == "" {
			o.SetUID(types.UID("uid-" + o.GetName()))
		}
	}
	check := func(verb string, o client.Object, dry []string) error {
		if len(dry) != 1 || dry[0] != metav1.DryRunAll {
			t.Errorf("%s of %T %s is written", verb, o, o.GetName())
		}
		if answer == nil {
			return nil
		}
		return answer(verb, o)
	}
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := check("create", o, (&client.CreateOptions{}).ApplyOptions(opts).DryRun); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			if err := check("patch", o, (&client.PatchOptions{}).ApplyOptions(opts).DryRun); err != nil {
				return err
			}
			return tried(o, p)
		},
	}).Build()
}

// tried answers the dry run of a patch, which the fake client does not.
func tried(o client.Object, p client.Patch) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	merge(o.(*unstructured.Unstructured).Object, fields)
	return nil
}

// run runs the command in namespace garden, and returns what it prints and its exit code.
func run(t *testing.T, api client.Client, args ...string) (text string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-mcm", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringP("output", "o", "table", "that of commands that write")
	root.AddCommand(New(Deps{
		Connect: func() (Clusters, error) { return Clusters{Control: api, Target: api, Namespace: garden}, nil },
		Now:     func() time.Time { return now },
		Complete: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"workers"}, cobra.ShellCompDirectiveNoFileComp
		},
	}))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	switch code, ok := exitCode(err); {
	case ok:
		return out.String(), code
	case err != nil:
		return out.String() + err.Error(), exitRefused
	}
	return out.String(), 0
}

func forbidden(what string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New(what))
}

// lines are those of a text that contain a word.
func lines(text, word string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}
