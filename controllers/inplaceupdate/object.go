package inplaceupdate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// object is an infrastructure or bootstrap object of a request. The zero value
// is none.
type object struct {
	kind     schema.GroupKind
	spec     map[string]any // of the Machine's own object, in a template the one inside
	metadata map[string]any // of the template's inside; nil in an object that is no template
}

// decode reads an object of a request, whose spec is at path. An empty one is none.
func decode(raw runtime.RawExtension, path []string) (object, error) {
	if len(raw.Raw) == 0 {
		return object{}, nil
	}
	var u unstructured.Unstructured
	if err := json.Unmarshal(raw.Raw, &u.Object); err != nil {
		return object{}, fmt.Errorf("read an object of the request: %w", err)
	}
	o := object{kind: u.GroupVersionKind().GroupKind()}
	var err error
	if o.spec, _, err = unstructured.NestedMap(u.Object, path...); err != nil {
		return object{}, fmt.Errorf("read %s of %s %s: %w", strings.Join(path, "."), o.kind.Kind, u.GetName(), err)
	}
	if len(path) > 1 {
		inside := append(slices.Clone(path[:len(path)-1]), "metadata")
		if o.metadata, _, err = unstructured.NestedMap(u.Object, inside...); err != nil {
			return object{}, fmt.Errorf("read %s of %s %s: %w", strings.Join(inside, "."), o.kind.Kind, u.GetName(), err)
		}
	}
	return o, nil
}

// into decodes a spec.
func (o object) into(spec any) error {
	text, err := json.Marshal(o.spec)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, spec)
}

// besides is the first field, in alphabetical order, in which two specs differ
// and that is none of known; empty if there is none.
func besides(was, is map[string]any, known ...string) string {
	for _, field := range fields(was, is) {
		if !slices.Contains(known, field) && !equality.Semantic.DeepEqual(was[field], is[field]) {
			return field
		}
	}
	return ""
}

// fields are those of two maps, sorted.
func fields(was, is map[string]any) []string {
	var all []string
	for field := range was {
		all = append(all, field)
	}
	for field := range is {
		all = append(all, field)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// jsonPatch turns these fields of a spec at path into what they are to be. The zero
// value if nothing differs.
func jsonPatch(path []string, was, is map[string]any, names ...string) (runtimehooksv1.Patch, error) {
	var steps []operation
	for _, field := range names {
		before, had := was[field]
		after, has := is[field]
		at := "/" + strings.Join(path, "/") + "/" + field
		switch {
		case has && (!had || !equality.Semantic.DeepEqual(before, after)):
			steps = append(steps, operation{"add", at, after})
		case had && !has:
			steps = append(steps, operation{Op: "remove", Path: at})
		}
	}
	if len(steps) == 0 {
		return runtimehooksv1.Patch{}, nil
	}
	text, err := json.Marshal(steps)
	if err != nil {
		return runtimehooksv1.Patch{}, fmt.Errorf("write a patch: %w", err)
	}
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONPatchType, Patch: text}, nil
}
