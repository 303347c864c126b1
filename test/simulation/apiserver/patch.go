package apiserver

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Patch is a patch as it is sent.
type Patch struct {
	Type types.PatchType
	Data []byte
}

// Patch applies a patch to the stored object of that key and returns what is
// stored then. A patch that holds a resourceVersion fails on another one.
func (s *Server) Patch(by string, k *Kind, key types.NamespacedName, p Patch, status bool) (client.Object, error) {
	e := k.stored[key]
	if e == nil {
		return nil, apierrors.NewNotFound(k.Resource, key.Name)
	}
	wanted, err := patched(k, e.object, p.Type, p.Data)
	if err != nil {
		return nil, err
	}
	return s.replace(by, k, wanted, status)
}

// patched returns what a patch makes of an object.
func patched(k *Kind, before client.Object, how types.PatchType, patch []byte) (client.Object, error) {
	if how == types.MergePatchType {
		if after, ok, err := mergeFields(before, patch); ok || err != nil {
			return after, err
		}
	}
	text, err := json.Marshal(before)
	if err != nil {
		return nil, refuse("encode: %v", err)
	}
	if text, err = apply(k, text, how, patch); err != nil {
		return nil, err
	}
	wanted := k.New()
	if err := json.Unmarshal(text, wanted); err != nil {
		return nil, refuse("decode: %v", err)
	}
	return wanted, nil
}

// mergeFields applies a JSON merge patch to the fields of an object that it names,
// and shares the others with it. It is not ok if it names what is no such field.
func mergeFields(before client.Object, patch []byte) (after client.Object, ok bool, err error) {
	var changes map[string]any
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, false, refuse("merge patch: %v", err)
	}
	into := reflect.New(reflect.TypeOf(before).Elem())
	into.Elem().Set(reflect.ValueOf(before).Elem())
	if !knows(into.Elem(), changes) {
		return nil, false, nil
	}
	for name, change := range changes {
		if err := mergeField(fieldOf(into.Elem(), name), change); err != nil {
			return nil, false, err
		}
	}
	return into.Interface().(client.Object), true, nil
}

// fieldOf returns the field of an object with that name in JSON; invalid if there is none.
func fieldOf(object reflect.Value, name string) reflect.Value {
	for i := range object.NumField() {
		if tag, _, _ := strings.Cut(object.Type().Field(i).Tag.Get("json"), ","); tag == name {
			return object.Field(i)
		}
	}
	return reflect.Value{}
}

// knows reports whether a struct has a field for each change.
func knows(object reflect.Value, changes map[string]any) bool {
	for name := range changes {
		if !fieldOf(object, name).IsValid() {
			return false
		}
	}
	return true
}

// scalars are the answers of IsScalar, by type.
var scalars sync.Map

// IsScalar reports whether values of a type are not written to JSON field by field.
func IsScalar(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return true
	}
	if known, ok := scalars.Load(t); ok {
		return known.(bool)
	}
	is := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
	scalars.Store(t, is)
	return is
}

// mergeField changes one field as a JSON merge patch asks.
func mergeField(field reflect.Value, change any) error {
	inner, isObject := change.(map[string]any)
	if isObject && !IsScalar(field.Type()) && knows(field, inner) {
		for name, c := range inner {
			if err := mergeField(fieldOf(field, name), c); err != nil {
				return err
			}
		}
		return nil
	}
	if isObject {
		text, err := json.Marshal(field.Interface())
		if err != nil {
			return refuse("encode: %v", err)
		}
		var was map[string]any
		if err := json.Unmarshal(text, &was); err != nil {
			return refuse("decode: %v", err)
		}
		change = merge(was, inner)
	}
	text, err := json.Marshal(change)
	if err != nil {
		return refuse("encode: %v", err)
	}
	field.SetZero()
	if err := json.Unmarshal(text, field.Addr().Interface()); err != nil {
		return refuse("decode: %v", err)
	}
	return nil
}

// apply returns the JSON that a patch makes of another.
func apply(k *Kind, text []byte, how types.PatchType, patch []byte) ([]byte, error) {
	switch how {
	case types.StrategicMergePatchType:
		out, err := strategicpatch.StrategicMergePatch(text, patch, reflect.New(k.object).Interface())
		if err != nil {
			return nil, refuse("strategic merge patch: %v", err)
		}
		return out, nil
	case types.MergePatchType, types.JSONPatchType:
	default:
		return nil, refuse("patch type %s is not modelled", how)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, refuse("decode: %v", err)
	}
	if how == types.JSONPatchType {
		if err := operate(object, patch); err != nil {
			return nil, apierrors.NewGenericServerResponse(422, "patch", k.Resource, "", err.Error(), 0, true)
		}
		return json.Marshal(object)
	}
	var changes map[string]any
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, refuse("merge patch: %v", err)
	}
	return json.Marshal(merge(object, changes))
}

// merge applies a JSON merge patch (RFC 7386).
func merge(into, changes map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{}
	}
	for key, value := range changes {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isObject:
			there, _ := into[key].(map[string]any)
			into[key] = merge(there, inner)
		default:
			into[key] = value
		}
	}
	return into
}

// operation of a JSON patch (RFC 6902); the others are not used here.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// operate applies a JSON patch to an object.
func operate(object map[string]any, patch []byte) error {
	var operations []operation
	if err := json.Unmarshal(patch, &operations); err != nil {
		return refuse("json patch: %v", err)
	}
	for _, o := range operations {
		if err := o.apply(object); err != nil {
			return err
		}
	}
	return nil
}

func (o operation) apply(object map[string]any) error {
	path := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
	for i := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
	}
	var parent any = object
	for i, step := range path[:len(path)-1] {
		next, found := child(parent, step)
		if !found {
			return refuse("%s: there is no %s", o.Path, path[i])
		}
		parent = next
	}
	last := path[len(path)-1]
	value, found := child(parent, last)
	switch {
	case o.Op == "test" && (!found || !reflect.DeepEqual(value, o.Value)):
		return refuse("testing path %s: the value is another", o.Path)
	case o.Op == "test":
		return nil
	case !found && o.Op != "add":
		return refuse("%s: there is nothing", o.Path)
	}
	m, isObject := parent.(map[string]any)
	switch {
	case isObject && o.Op == "remove":
		delete(m, last)
	case isObject:
		m[last] = o.Value
	case o.Op == "remove":
		return o.removeItem(object, path, parent.([]any))
	default:
		return refuse("%s of a list is not modelled", o.Op)
	}
	return nil
}

// removeItem takes an item out of a list, which has to be put back into its parent.
func (o operation) removeItem(object map[string]any, path []string, list []any) error {
	at, err := strconv.Atoi(path[len(path)-1])
	if err != nil {
		return refuse("%s: no index", o.Path)
	}
	var parent any = object
	for _, step := range path[:len(path)-2] {
		parent, _ = child(parent, step)
	}
	m, ok := parent.(map[string]any)
	if !ok {
		return refuse("%s: a list within a list is not modelled", o.Path)
	}
	m[path[len(path)-2]] = slices.Delete(slices.Clone(list), at, at+1)
	return nil
}

func child(parent any, step string) (any, bool) {
	switch p := parent.(type) {
	case map[string]any:
		value, found := p[step]
		return value, found
	case []any:
		at, err := strconv.Atoi(step)
		if err != nil || at < 0 || at >= len(p) {
			return nil, false
		}
		return p[at], true
	}
	return nil, false
}

// canonical is o as it comes out of JSON: times have seconds, and what is empty
// is left out.
func canonical(k *Kind, o client.Object) (client.Object, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, refuse("encode: %v", err)
	}
	out := k.New()
	if err := json.Unmarshal(text, out); err != nil {
		return nil, refuse("decode: %v", err)
	}
	return out, nil
}
