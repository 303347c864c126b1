package mirror

import (
	"reflect"
	"unsafe"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// dataOf returns what patch.Data(o) does. Of a patch that compares o with how it
// was, it leaves out the fields that are the same in both: writing them as JSON
// and reading them again costs most of it.
func dataOf(o client.Object, patch client.Patch) ([]byte, error) {
	inner := reflect.ValueOf(patch)
	if inner.Kind() != reflect.Pointer || !inner.Elem().FieldByName("from").IsValid() {
		return patch.Data(o)
	}
	shallow := reflect.New(inner.Elem().Type())
	shallow.Elem().Set(inner.Elem())
	field := shallow.Elem().FieldByName("from")
	from := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
	before, after, ok := differing(from.Interface(), o)
	if !ok {
		return patch.Data(o)
	}
	from.Set(reflect.ValueOf(before))
	return shallow.Interface().(client.Patch).Data(after)
}

// differing returns copies of two objects without the fields that are the same in
// both; their names and versions stay. It is not ok for what are no two objects of
// one type.
func differing(before any, o client.Object) (was, is client.Object, ok bool) {
	a, b := reflect.ValueOf(before).Elem(), reflect.ValueOf(o).Elem()
	if a.Type() != b.Type() || a.Kind() != reflect.Struct {
		return nil, nil, false
	}
	x, y := reflect.New(a.Type()), reflect.New(b.Type())
	x.Elem().Set(a)
	y.Elem().Set(b)
	blank(x.Elem(), y.Elem())
	was, is = x.Interface().(client.Object), y.Interface().(client.Object)
	was.SetResourceVersion(before.(client.Object).GetResourceVersion())
	is.SetResourceVersion(o.GetResourceVersion())
	return was, is, true
}

// blank clears the fields that are the same in two values of one type of struct.
func blank(a, b reflect.Value) {
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		switch {
		case x.Kind() == reflect.Struct && !apiserver.IsScalar(x.Type()):
			blank(x, y)
		case reflect.DeepEqual(x.Interface(), y.Interface()):
			x.SetZero()
			y.SetZero()
		}
	}
}
