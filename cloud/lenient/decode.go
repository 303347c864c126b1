package lenient

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Options say how a provider spec is decoded.
type Options struct {
	// Severity is that of a value of a wrong type. The path is relative to the
	// spec and spelled as the user does, e.g. "disks[0].sizeGiB". Nil is
	// BlocksCreate for all.
	Severity func(path string) cloud.Severity
	// CaseSensitive is set where MCM's driver matches keys with their case.
	CaseSensitive bool
	// Hint names what a spec needs, for one that is no JSON object.
	Hint string
}

// Result is what was found on the way.
type Result struct {
	// Problems name their fields below "providerSpec".
	Problems []cloud.Problem
	// Unread are the paths of the values of a wrong type, in the spec's spelling.
	Unread []string
	// Bad is set if the spec is no JSON object. Nothing was decoded.
	Bad bool
}

// Decode decodes an object into the struct that into points to, by the names in
// its json tags; fields without one are left alone. A field may be a string, a
// boolean, a number, a struct, a list or a pointer of these, a map of strings, or
// a json.RawMessage, which takes anything. Lists and maps stay nil when they are
// empty.
func Decode(raw json.RawMessage, into any, o Options) Result {
	d := &decoder{options: o}
	if !isObject(raw) {
		d.add(cloud.BlocksAll, "", "is no JSON object; write one with "+o.Hint)
		d.Bad = true
		return d.Result
	}
	d.object("", raw, reflect.ValueOf(into).Elem())
	return d.Result
}

func isObject(raw json.RawMessage) bool {
	var top map[string]json.RawMessage
	return json.Unmarshal(raw, &top) == nil && top != nil
}

type decoder struct {
	Result
	options Options
}

// add notes a problem.
func (d *decoder) add(severity cloud.Severity, path, message string) {
	at := strings.TrimSuffix("providerSpec."+path, ".")
	d.Problems = append(d.Problems, cloud.Problem{Severity: severity, Field: at, Message: message})
}

// wrongType notes that a value is not what its field takes.
func (d *decoder) wrongType(path string, raw json.RawMessage, want string) {
	severity := cloud.BlocksCreate
	if d.options.Severity != nil {
		severity = d.options.Severity(path)
	}
	d.Unread = append(d.Unread, path)
	d.add(severity, path, fmt.Sprintf("is %s and has to be %s", typeOf(raw), want))
}

// object decodes an object into a struct. An exact match of a key wins.
func (d *decoder) object(path string, raw json.RawMessage, into reflect.Value) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		d.wrongType(path, raw, "an object")
		return
	}
	known := fieldsOf(into.Type())
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		name, found := d.match(key, known)
		if !found {
			d.add(cloud.Warning, at, "is not known and has no effect; remove it or correct its spelling")
			continue
		}
		if _, exact := values[name]; exact && key != name {
			d.add(cloud.Warning, at, "has no effect because "+name+" is there too; remove it")
			continue
		}
		d.value(at, values[key], into.Field(known[name]))
	}
}

// fieldsOf returns the fields of a struct by their JSON names.
func fieldsOf(t reflect.Type) map[string]int {
	known := map[string]int{}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			known[name] = i
		}
	}
	return known
}

// match returns the name of the field that a key means.
func (d *decoder) match(key string, known map[string]int) (name string, found bool) {
	if _, exact := known[key]; exact || d.options.CaseSensitive {
		return key, exact
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if strings.EqualFold(key, name) {
			return name, true
		}
	}
	return "", false
}

// value decodes a value of any type. Null leaves the field as it is.
func (d *decoder) value(path string, raw json.RawMessage, into reflect.Value) {
	if string(raw) == "null" {
		return
	}
	if into.Type() == reflect.TypeFor[json.RawMessage]() {
		into.SetBytes(raw)
		return
	}
	switch into.Kind() { //nolint:exhaustive // all others are single values
	case reflect.Pointer:
		d.pointer(path, raw, into)
	case reflect.Struct:
		d.object(path, raw, into)
	case reflect.Slice:
		d.list(path, raw, into)
	case reflect.Map:
		d.texts(path, raw, into)
	default:
		if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
			d.wrongType(path, raw, wanted(into.Kind()))
		}
	}
}

// pointer decodes what a pointer points to. It stays nil when that is no object
// and of a wrong type.
func (d *decoder) pointer(path string, raw json.RawMessage, into reflect.Value) {
	fresh, before := reflect.New(into.Type().Elem()), len(d.Unread)
	d.value(path, raw, fresh.Elem())
	if fresh.Elem().Kind() == reflect.Struct || len(d.Unread) == before {
		into.Set(fresh)
	}
}

// list decodes a list. An element of a wrong type is there, and empty.
func (d *decoder) list(path string, raw json.RawMessage, into reflect.Value) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		d.wrongType(path, raw, "a list")
		return
	}
	if len(items) == 0 {
		return
	}
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i))
	}
	into.Set(out)
}

// texts decodes a map of strings. The entry of a value of a wrong type is
// there, and empty, because the key may say what is owned.
func (d *decoder) texts(path string, raw json.RawMessage, into reflect.Value) {
	var items map[string]json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		d.wrongType(path, raw, "an object")
		return
	}
	if len(items) == 0 {
		return
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		var value string
		if err := json.Unmarshal(items[key], &value); err != nil {
			d.wrongType(path+"["+key+"]", items[key], "a string")
		}
		out[key] = value
	}
	into.Set(reflect.ValueOf(out))
}

// typeOf describes the type of a JSON value.
func typeOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	}
	return "the number " + string(raw)
}

// wanted describes the type that a single value has to have.
func wanted(k reflect.Kind) string {
	switch k { //nolint:exhaustive // all others are whole numbers
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
