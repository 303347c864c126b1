package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

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
