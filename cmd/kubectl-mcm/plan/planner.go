package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/clouds"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/manifest"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// planner has what was read, and the plan that is made of it.
type planner struct {
	Clusters
	api      client.Client // Control, whose writes are dry runs
	now      time.Time
	drivers  *cloud.Registry
	spaces   map[string]*space
	classes  map[client.ObjectKey]*machinev1.MachineClass     // those of files
	machines map[client.ObjectKey]*infrav1.MCMMachineTemplate // those of files
	budgets  []policyv1.PodDisruptionBudget
	pods     map[string][]corev1.Pod // by namespace and name of the budget that refuses
	blockers bool                    // budgets were read
	warnings []string
	plan     Plan
}

// space is what a namespace has.
type space struct {
	*read.Objects
	facts *explain.Facts
}

func (c *command) planner(clusters Clusters) (*planner, error) {
	registry, err := cloud.NewRegistry(clouds.Offline(c.drivers), time.Now)
	if err != nil {
		return nil, err
	}
	return &planner{
		Clusters: clusters, api: client.NewDryRunClient(clusters.Control), now: c.Now(), drivers: registry,
		spaces: map[string]*space{}, classes: map[client.ObjectKey]*machinev1.MachineClass{},
		machines: map[client.ObjectKey]*infrav1.MCMMachineTemplate{}, pods: map[string][]corev1.Pod{},
		plan: Plan{TypeMeta: metav1.TypeMeta{APIVersion: explain.Version, Kind: "Plan"}, Items: []Change{}},
	}, nil
}

func (p *planner) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// unread notes what could not be read, once.
func (p *planner) unread(what string, err error) {
	if text := fmt.Sprintf("%s: %v", what, err); !slices.Contains(p.plan.Unread, text) {
		p.plan.Unread = append(p.plan.Unread, text)
	}
}

// withFiles plans the change of each object in files.
func (p *planner) withFiles(ctx context.Context, documents []manifest.Document) error {
	for _, d := range documents {
		if d.Object == nil {
			return fmt.Errorf("%s: %s", d.File, d.Wrong)
		}
		if ours(d.Object) && d.Object.GetNamespace() == "" {
			d.Object.SetNamespace(p.Namespace)
		}
		p.remember(d.Object)
	}
	for _, d := range documents {
		if !ours(d.Object) {
			p.plan.Skipped++
			continue
		}
		a, err := p.tryFile(ctx, d.Object)
		if err != nil {
			return fmt.Errorf("%s: %w", d.File, err)
		}
		if err := p.add(ctx, d.File, d.Object, a); err != nil {
			return err
		}
	}
	return nil
}

// ours reports whether the change of an object can be planned.
func ours(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	switch gvk.Group {
	case machinev1.GroupVersion.Group, infrav1.GroupVersion.Group:
		return true
	case clusterv1.GroupVersion.Group:
		return gvk.Kind == explain.KindDeployment
	}
	return false
}

// remember keeps what other objects of the files may name.
func (p *planner) remember(o *unstructured.Unstructured) {
	key := client.ObjectKeyFromObject(o)
	switch o.GroupVersionKind() {
	case machinev1.GroupVersion.WithKind(machinev1.MachineClassKind):
		class := &machinev1.MachineClass{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, class) == nil {
			p.classes[key] = class
		}
	case infrav1.GroupVersion.WithKind("MCMMachineTemplate"):
		template := &infrav1.MCMMachineTemplate{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, template) == nil {
			p.machines[key] = template
		}
	}
}

// withClass plans that a native pool gets another class.
func (p *planner) withClass(ctx context.Context, name, class string) error {
	s, err := p.space(ctx, p.Namespace)
	if err != nil {
		return err
	}
	for i := range s.Deployments {
		if s.Deployments[i].Name != name {
			continue
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"class": map[string]any{"name": class}},
		}}})
		if err != nil {
			return err
		}
		current := &unstructured.Unstructured{}
		current.SetGroupVersionKind(machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))
		if err := p.api.Get(ctx, client.ObjectKeyFromObject(&s.Deployments[i]), current); err != nil {
			return fmt.Errorf("read MachineDeployment %s: %w", name, err)
		}
		a, err := p.tryPatch(ctx, current, patch)
		if err != nil {
			return err
		}
		return p.add(ctx, "", current, a)
	}
	pool := func(d clusterv1.MachineDeployment) bool { return d.Name == name }
	if slices.ContainsFunc(s.ClusterDeployments, pool) {
		return fmt.Errorf("%s: is a pool of Cluster API, whose class is in its MCMMachineTemplate: write another template "+
			"and the MachineDeployment that names it, and use -f", name)
	}
	return fmt.Errorf("%s: no MachineDeployment has that name; kubectl mcm top shows all", name)
}

// space reads a namespace, once.
func (p *planner) space(ctx context.Context, namespace string) (*space, error) {
	if s := p.spaces[namespace]; s != nil {
		return s, nil
	}
	source := read.Source{Control: p.api, Target: p.Target, Namespace: namespace, Now: p.now, NoSecrets: true}
	found, facts, err := source.Objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range facts.Unread {
		if !slices.Contains(p.plan.Unread, text) {
			p.plan.Unread = append(p.plan.Unread, text)
		}
	}
	s := &space{found, facts}
	p.spaces[namespace] = s
	return s, nil
}

// add judges a change by its kind.
func (p *planner) add(ctx context.Context, file string, o *unstructured.Unstructured, a attempt) error {
	gvk := o.GroupVersionKind()
	c := Change{
		Object: explain.Ref{
			APIVersion: o.GetAPIVersion(), Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName(),
		},
		API: explain.Native, File: file, Checked: a.checked, Fields: changedFields(a.before, a.after),
	}
	if gvk.Group != machinev1.GroupVersion.Group {
		c.API = explain.ClusterAPI
	}
	s, err := p.space(ctx, o.GetNamespace())
	if err != nil {
		return err
	}
	v := &verdict{planner: p, space: s, Change: &c, attempt: a}
	if a.refused != nil {
		c.refuse(ruleAPIServer, "API server", a.refused.Error())
	} else if err := v.judge(ctx, gvk); err != nil {
		return err
	}
	p.plan.Items = append(p.plan.Items, c)
	return nil
}
