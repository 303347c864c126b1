package openstack

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// decode decodes a provider spec as MCM's driver does, keys with their case, but
// field by field, so that one of a wrong type does not hide the others.
func decode(raw json.RawMessage) *config {
	c := &config{}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil || top == nil {
		c.add(cloud.BlocksAll, "", "is no JSON object; write one with apiVersion "+specVersion+", kind "+specKind+" and spec")
		return c
	}
	c.object("", raw, reflect.ValueOf(c).Elem())
	return c
}

// neededAlways are the fields without which nothing can be called.
func neededAlways(path string) cloud.Severity {
	if slices.Contains([]string{"spec", "spec.region", "spec.tags"}, path) {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// wrongType notes that a value is not what its field takes.
func (c *config) wrongType(path string, raw json.RawMessage, want string) {
	c.unread = append(c.unread, path)
	c.add(neededAlways(path), path, fmt.Sprintf("is %s and has to be %s", typeOf(raw), want))
}

// object decodes an object into a struct.
func (c *config) object(path string, raw json.RawMessage, into reflect.Value) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		c.wrongType(path, raw, "an object")
		return
	}
	known := map[string]int{}
	for i := range into.NumField() {
		if name := into.Type().Field(i).Tag.Get("json"); name != "" {
			known[name] = i
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if i, found := known[key]; found {
			c.value(at, values[key], into.Field(i))
			continue
		}
		c.add(cloud.Warning, at, "is not known and has no effect"+meant(key, known))
	}
}

// meant says what an unknown key may be.
func meant(key string, known map[string]int) string {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if strings.EqualFold(name, key) {
			return "; it is spelled " + name
		}
	}
	return "; remove it or correct its spelling"
}

// value decodes a value of any type. Null leaves the field as it is.
func (c *config) value(path string, raw json.RawMessage, into reflect.Value) {
	if string(raw) == "null" {
		return
	}
	switch into.Kind() { //nolint:exhaustive // all others are single values
	case reflect.Pointer:
		fresh, before := reflect.New(into.Type().Elem()), len(c.unread)
		c.value(path, raw, fresh.Elem())
		if len(c.unread) == before {
			into.Set(fresh)
		}
	case reflect.Struct:
		c.object(path, raw, into)
	case reflect.Slice:
		c.list(path, raw, into)
	case reflect.Map:
		c.stringMap(path, raw, into)
	default:
		if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
			c.wrongType(path, raw, wanted(into.Kind()))
		}
	}
}

func (c *config) list(path string, raw json.RawMessage, into reflect.Value) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		c.wrongType(path, raw, "a list")
		return
	}
	if len(items) == 0 {
		return // an empty list is none
	}
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		c.value(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i))
	}
	into.Set(out)
}

func (c *config) stringMap(path string, raw json.RawMessage, into reflect.Value) {
	var items map[string]json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		c.wrongType(path, raw, "an object")
		return
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		var value string
		if err := json.Unmarshal(items[key], &value); err != nil {
			c.add(cloud.BlocksCreate, path+"["+key+"]", fmt.Sprintf("is %s and has to be a string", typeOf(items[key])))
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
