package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
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

// attempt is what becomes of an object.
type attempt struct {
	before  *unstructured.Unstructured // nil: it does not exist
	after   *unstructured.Unstructured
	checked bool  // the API server has judged it
	refused error // why it refuses the change; after is not known then
}

// tryFile makes the change of a manifest, as kubectl apply does, without writing it.
func (p *planner) tryFile(ctx context.Context, wanted *unstructured.Unstructured) (attempt, error) {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(wanted.GroupVersionKind())
	err := p.api.Get(ctx, client.ObjectKeyFromObject(wanted), current)
	switch {
	case apierrors.IsNotFound(err):
		return p.tryCreate(ctx, wanted)
	case err != nil:
		return attempt{}, fmt.Errorf("read %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
	}
	modified, err := json.Marshal(wanted)
	if err != nil {
		return attempt{}, err
	}
	now, err := json.Marshal(current)
	if err != nil {
		return attempt{}, err
	}
	var original []byte
	if text := current.GetAnnotations()[machinev1.LastAppliedConfigurationAnnotation]; text != "" {
		original = []byte(text)
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, now)
	if err != nil {
		return attempt{}, fmt.Errorf("merge %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
	}
	return p.tryPatch(ctx, current, patch)
}

// tryCreate creates an object as a dry run.
func (p *planner) tryCreate(ctx context.Context, wanted *unstructured.Unstructured) (attempt, error) {
	made := wanted.DeepCopy()
	err := p.api.Create(ctx, made)
	return p.judged(ctx, attempt{after: made}, err, "create", func() *unstructured.Unstructured { return wanted })
}

// tryPatch merges a patch into an object as a dry run. Our kinds are custom resources, for which kubectl
// apply sends such patches, too.
func (p *planner) tryPatch(ctx context.Context, current *unstructured.Unstructured, patch []byte) (attempt, error) {
	changed := current.DeepCopy()
	err := p.api.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch))
	return p.judged(ctx, attempt{before: current, after: changed}, err, "patch", func() *unstructured.Unstructured {
		fields := map[string]any{}
		merged := current.DeepCopy()
		if json.Unmarshal(patch, &fields) == nil {
			merge(merged.Object, fields)
		}
		return merged
	})
}

// judged is what a dry run with that answer means: without the right to change the object, it is what
// is made of it here.
func (p *planner) judged(ctx context.Context, a attempt, answer error, verb string,
	local func() *unstructured.Unstructured,
) (attempt, error) {
	o := local()
	switch {
	case answer == nil:
		a.checked = true
	case apierrors.IsForbidden(answer) && !p.allowed(ctx, o, verb):
		a.after = o
		p.warn("%s/%s: the API server has not judged the change, which was made here: you may not %s it, and so may not "+
			"try that; defaults and admission are left out", o.GetKind(), o.GetName(), verb)
	case apierrors.IsInvalid(answer), apierrors.IsForbidden(answer), apierrors.IsBadRequest(answer):
		a.refused, a.after = answer, nil
	default:
		return a, fmt.Errorf("dry run of %s %s: %w", o.GetKind(), o.GetName(), answer)
	}
	return a, nil
}

// allowed reports whether the user has a right. Asking writes nothing.
func (p *planner) allowed(ctx context.Context, o *unstructured.Unstructured, verb string) bool {
	gvk := o.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	review := &authorizationv1.SelfSubjectAccessReview{}
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: o.GetNamespace(), Name: o.GetName(), Verb: verb, Group: gvk.Group, Resource: resource.Resource,
	}
	return p.api.Create(ctx, review) == nil && review.Status.Allowed
}

// merge applies a JSON merge patch.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		fields, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap:
			inner, _ := into[key].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			merge(inner, fields)
			into[key] = inner
		default:
			into[key] = value
		}
	}
}

// changedFields are the paths at which two versions of an object differ, as far as people write them.
func changedFields(before, after *unstructured.Unstructured) []string {
	if before == nil || after == nil {
		return nil
	}
	left, right := written(before), written(after)
	var found []string
	for _, key := range slices.Sorted(maps.Keys(right)) {
		found = append(found, differences(key, left[key], right[key])...)
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		if _, stays := right[key]; !stays {
			found = append(found, key)
		}
	}
	return found
}

// written is an object without what the API server and kubectl write.
func written(o *unstructured.Unstructured) map[string]any {
	content := o.DeepCopy().Object
	delete(content, "status")
	annotations := o.GetAnnotations()
	delete(annotations, machinev1.LastAppliedConfigurationAnnotation)
	kept := map[string]any{"labels": asAny(o.GetLabels()), "annotations": asAny(annotations)}
	content["metadata"] = kept
	return content
}

func asAny(texts map[string]string) map[string]any {
	all := map[string]any{}
	for key, value := range texts {
		all[key] = value
	}
	return all
}

// differences are the paths below path at which values differ.
func differences(path string, left, right any) []string {
	a, isMap := left.(map[string]any)
	b, alsoMap := right.(map[string]any)
	if !isMap || !alsoMap {
		if sameValue(left, right) {
			return nil
		}
		return []string{path}
	}
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	var found []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		found = append(found, differences(path+"."+key, a[key], b[key])...)
	}
	return found
}

// sameValue compares values of JSON, whose numbers have two types here. What is empty equals nothing.
func sameValue(a, b any) bool {
	return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b) || isEmpty(a) && isEmpty(b)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
