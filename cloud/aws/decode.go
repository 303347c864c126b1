package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// decode decodes a provider spec as encoding/json does, but field by field, so
// that one of a wrong type does not hide the others.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil || top == nil {
		s.add(cloud.BlocksAll, "", "is no JSON object; write one with ami, region, machineType, iam, networkInterfaces and tags")
		return s
	}
	s.object("", raw, reflect.ValueOf(s).Elem())
	return s
}

// neededAlways are the fields without which nothing can be called.
func neededAlways(path string) cloud.Severity {
	top, _, _ := strings.Cut(path, ".")
	if strings.EqualFold(top, "region") || strings.EqualFold(top, "tags") {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// wrongType notes that a value is not what its field takes.
func (s *spec) wrongType(path string, raw json.RawMessage, want string) {
	s.unread = append(s.unread, path)
	s.add(neededAlways(path), path, fmt.Sprintf("is %s and has to be %s", typeOf(raw), want))
}

// object decodes an object into a struct. The case of a key does not matter; an
// exact match wins.
func (s *spec) object(path string, raw json.RawMessage, into reflect.Value) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		s.wrongType(path, raw, "an object")
		return
	}
	known := fieldsOf(into.Type())
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		name, i, found := match(key, known)
		if !found {
			s.add(cloud.Warning, at, "is not known and has no effect; remove it or correct its spelling")
			continue
		}
		if _, exact := values[name]; exact && key != name {
			s.add(cloud.Warning, at, "has no effect because "+name+" is there too; remove it")
			continue
		}
		s.value(at, values[key], into.Field(i))
	}
}

// fieldsOf returns the fields of a struct by their JSON names.
func fieldsOf(t reflect.Type) map[string]int {
	known := map[string]int{}
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("json"); name != "" {
			known[name] = i
		}
	}
	return known
}

// match returns the field that a key means.
func match(key string, known map[string]int) (name string, i int, found bool) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if strings.EqualFold(key, name) {
			return name, known[name], true
		}
	}
	return "", 0, false
}

// value decodes a value of any type. Null leaves the field as it is.
func (s *spec) value(path string, raw json.RawMessage, into reflect.Value) {
	if string(raw) == "null" {
		return
	}
	switch into.Kind() { //nolint:exhaustive // all others are single values
	case reflect.Pointer:
		fresh, before := reflect.New(into.Type().Elem()), len(s.problems)
		s.value(path, raw, fresh.Elem())
		if fresh.Elem().Kind() == reflect.Struct || !s.blockedSince(before) {
			into.Set(fresh)
		}
	case reflect.Struct:
		s.object(path, raw, into)
	case reflect.Slice:
		s.list(path, raw, into)
	case reflect.Map:
		s.stringMap(path, raw, into)
	default:
		if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
			s.wrongType(path, raw, wanted(into.Kind()))
		}
	}
}

// blockedSince says whether a problem that is more than a warning was added
// after the first n.
func (s *spec) blockedSince(n int) bool {
	return slices.ContainsFunc(s.problems[n:], func(p cloud.Problem) bool { return p.Severity > cloud.Warning })
}

func (s *spec) list(path string, raw json.RawMessage, into reflect.Value) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		s.wrongType(path, raw, "a list")
		return
	}
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		s.value(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i))
	}
	into.Set(out)
}

func (s *spec) stringMap(path string, raw json.RawMessage, into reflect.Value) {
	var items map[string]json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		s.wrongType(path, raw, "an object")
		return
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		var value string
		if err := json.Unmarshal(items[key], &value); err != nil {
			s.add(cloud.BlocksCreate, path+"["+key+"]", fmt.Sprintf("is %s and has to be a string", typeOf(items[key])))
		}
		out[key] = value
	}
	into.Set(reflect.ValueOf(out))
}

// typeOf says what a JSON value is.
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

// wanted says what a single value has to be.
func wanted(k reflect.Kind) string {
	switch k { //nolint:exhaustive // there are no other fields
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	}
	return "a whole number"
}
