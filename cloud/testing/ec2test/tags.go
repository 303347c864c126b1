package ec2test

import (
	"fmt"
	"maps"
	"strings"
)

// createTags adds tags to resources, or replaces those of the same keys. All of the
// resources have to exist and to have room, or nothing changes.
func (c *Cloud) createTags(f params) (any, error) {
	all, err := c.tagged(f)
	if err != nil {
		return nil, err
	}
	const most = 50
	more := map[string]string{}
	for i := range f.count("Tag") {
		more[f.Get(fmt.Sprintf("Tag.%d.Key", i+1))] = f.Get(fmt.Sprintf("Tag.%d.Value", i+1))
	}
	changed := make([]map[string]string, len(all))
	for i, r := range all {
		changed[i] = maps.Clone(more)
		for key, value := range r.Tags {
			if _, replaced := more[key]; !replaced {
				changed[i][key] = value
			}
		}
		if len(changed[i]) > most {
			return nil, fail("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
		}
	}
	for i, r := range all {
		r.Tags = changed[i]
	}
	return succeeded(f), nil
}

// deleteTags removes tags from resources: those of a key, or, where a value is given, of
// that value. What is not there needs not go.
func (c *Cloud) deleteTags(f params) (any, error) {
	all, err := c.tagged(f)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		for i := range f.count("Tag") {
			at := fmt.Sprintf("Tag.%d.", i+1)
			if key := f.Get(at + "Key"); !f.Has(at+"Value") || r.Tags[key] == f.Get(at+"Value") {
				delete(r.Tags, key)
			}
		}
	}
	return succeeded(f), nil
}

// tagged are the resources that a change of tags names.
func (c *Cloud) tagged(f params) ([]*Resource, error) {
	codes := map[string]string{
		"i": "InvalidInstanceID.NotFound", "vol": "InvalidVolume.NotFound", "eni": "InvalidNetworkInterfaceID.NotFound",
	}
	var all []*Resource
	for _, id := range f.list("ResourceId") {
		r := c.all[id]
		if r == nil {
			kind, _, _ := strings.Cut(id, "-")
			code, known := codes[kind]
			if !known {
				return nil, fail("InvalidID", "The ID '%s' is not valid", id)
			}
			return nil, fail(code, "The ID '%s' does not exist", id)
		}
		all = append(all, r)
	}
	return all, nil
}
