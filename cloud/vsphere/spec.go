package vsphere

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// spec is a decoded provider spec. Nothing modifies it once Parse has returned.
type spec struct {
	Region                       string
	Datacenter                   string
	Datastore                    string
	DatastoreCluster             string
	ComputeCluster               string
	ResourcePool                 string
	HostSystem                   string
	Folder                       string
	TemplateVM                   string
	Network                      string
	SwitchUUID                   string
	NumCPUs                      int32
	MemoryMB                     int64
	MemoryReservationLockedToMax *bool
	SystemDisk                   *systemDisk
	ExtraConfig                  map[string]string
	GuestID                      string
	VApp                         *vApp
	Customization                string
	Force                        bool
	WaitForIP                    bool
	SSHKeys                      []string
	Tags                         map[string]string

	problems []cloud.Problem
}

type systemDisk struct{ SizeGB int64 }

type vApp struct{ Properties map[string]string }

// field is where a value goes, and what it rules out that it is of a wrong type.
type field struct {
	into     any
	severity cloud.Severity
}

// decode decodes a provider spec as encoding/json does, but field by field, so
// that one of a wrong type does not hide the others.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil || top == nil {
		s.add(cloud.BlocksAll, "", "is no JSON object; write one with templateVM, network, a place to run, a datastore and tags")
		return s
	}
	var disk, vapp, extra, tags map[string]json.RawMessage
	var keys []json.RawMessage
	var ignored json.RawMessage
	const create, all = cloud.BlocksCreate, cloud.BlocksAll
	s.fields("", top, map[string]field{
		"apiVersion": {&ignored, cloud.Warning}, "kind": {&ignored, cloud.Warning},
		"region": {&s.Region, all}, "datacenter": {&s.Datacenter, all}, "folder": {&s.Folder, all}, "tags": {&tags, all},
		"datastore": {&s.Datastore, create}, "datastoreCluster": {&s.DatastoreCluster, create},
		"computeCluster": {&s.ComputeCluster, create}, "resourcePool": {&s.ResourcePool, create}, "hostSystem": {&s.HostSystem, create},
		"templateVM": {&s.TemplateVM, create}, "network": {&s.Network, create}, "switchUuid": {&s.SwitchUUID, create},
		"numCpus": {&s.NumCPUs, create}, "memory": {&s.MemoryMB, create},
		"memoryReservationLockedToMax": {&s.MemoryReservationLockedToMax, create},
		"systemDisk":                   {&disk, create}, "extraConfig": {&extra, create}, "guestId": {&s.GuestID, create},
		"vapp": {&vapp, create}, "customization": {&s.Customization, create},
		"force": {&s.Force, create}, "waitForIP": {&s.WaitForIP, create}, "sshKeys": {&keys, create},
	})
	s.decodeParts(disk, vapp)
	s.ExtraConfig = s.texts("extraConfig", extra, create)
	s.Tags = s.texts("tags", tags, create)
	for i, raw := range keys {
		var key string
		if err := json.Unmarshal(raw, &key); err != nil {
			s.add(create, fmt.Sprintf("sshKeys[%d]", i), fmt.Sprintf("is %s and has to be a string", typeOf(raw)))
		}
		s.SSHKeys = append(s.SSHKeys, key)
	}
	return s
}

// decodeParts decodes the objects in the spec.
func (s *spec) decodeParts(disk, vapp map[string]json.RawMessage) {
	if disk != nil {
		s.SystemDisk = &systemDisk{}
		s.fields("systemDisk.", disk, map[string]field{"size": {&s.SystemDisk.SizeGB, cloud.BlocksCreate}})
	}
	if vapp != nil {
		var properties map[string]json.RawMessage
		s.fields("vapp.", vapp, map[string]field{"properties": {&properties, cloud.BlocksCreate}})
		s.VApp = &vApp{Properties: s.texts("vapp.properties", properties, cloud.BlocksCreate)}
	}
}

// fields decodes values into what is known of them. The case of a key does not
// matter; an exact match wins.
func (s *spec) fields(path string, values map[string]json.RawMessage, known map[string]field) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, found := match(key, known)
		if !found {
			s.add(cloud.Warning, path+key, "is not known and has no effect; remove it or correct its spelling")
			continue
		}
		if _, exact := values[name]; exact && key != name {
			s.add(cloud.Warning, path+key, "has no effect because "+name+" is there too; remove it")
			continue
		}
		if err := json.Unmarshal(values[key], known[name].into); err != nil {
			s.add(known[name].severity, path+key, fmt.Sprintf("is %s and has to be %s", typeOf(values[key]), wanted(known[name].into)))
		}
	}
}

// match returns the name of the field that a key means.
func match(key string, known map[string]field) (name string, found bool) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if strings.EqualFold(key, name) {
			return name, true
		}
	}
	return "", false
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

// wanted says what a field has to be.
func wanted(into any) string {
	switch into.(type) {
	case *string:
		return "a string"
	case *bool, **bool:
		return "true or false"
	case *int32, *int64:
		return "a whole number"
	case *map[string]json.RawMessage:
		return "an object"
	}
	return "a list"
}

// texts decodes a map of strings; it is nil if there are none.
func (s *spec) texts(path string, values map[string]json.RawMessage, severity cloud.Severity) map[string]string {
	if len(values) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var value string
		if err := json.Unmarshal(values[key], &value); err != nil {
			s.add(severity, path+"["+key+"]", fmt.Sprintf("is %s and has to be a string", typeOf(values[key])))
		}
		out[key] = value
	}
	return out
}

// add notes a problem; path is relative to the provider spec.
func (s *spec) add(severity cloud.Severity, path, message string) {
	at := "providerSpec"
	if path != "" {
		at += "." + path
	}
	s.problems = append(s.problems, cloud.Problem{Severity: severity, Field: at, Message: message})
}

// report returns the problems, by field. What is only a warning does not stay:
// classes that mean the same are equal.
func (s *spec) report() []cloud.Problem {
	slices.SortStableFunc(s.problems, func(a, b cloud.Problem) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(b.Severity, a.Severity))
	})
	all := slices.Clone(s.problems)
	s.problems = slices.DeleteFunc(s.problems, func(p cloud.Problem) bool { return p.Severity == cloud.Warning })
	if len(s.problems) == 0 {
		s.problems = nil
	}
	return all
}

// specOf returns the driver's own form of a class that can be used for calls.
func specOf(op string, c cloud.Class) (*spec, error) {
	s, ok := c.Spec.(*spec)
	if !ok {
		return nil, cloud.Errorf(cloud.Invalid, op, "InvalidClass", "the class was not parsed by this driver")
	}
	if err := cloud.Worst(op, s.problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	return s, nil
}
