package gcp

import (
	"maps"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// elsewhere is the value of a label whose own one is too long for a label. It is in the metadata
// under the same key. The codec writes no such value.
const elsewhere = "_"

// encode returns the tags of a request as labels, with the values that are too long for labels as
// metadata, and what about them does not fit.
func encode(tags map[string]string) (labels map[string]string, items []item, problems []cloud.Problem) {
	labels = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		one := map[string]string{key: tags[key]}
		encoded, wrong := codec.Encode(one)
		name := codec.Key(key)
		if len(encoded[name]) > tagLimits.ValueMax && len(name) <= tagLimits.KeyMax {
			items, encoded[name], wrong = append(items, item{name, tags[key]}), elsewhere, nil
		}
		maps.Copy(labels, encoded)
		problems = append(problems, wrong...)
	}
	return labels, items, problems
}

// tagsOf returns the tags of an instance as they were given to Create.
func tagsOf(labels map[string]string, items []item) map[string]string {
	tags := codec.Decode(labels)
	for key := range tags {
		name := codec.Key(key)
		at := slices.IndexFunc(items, func(i item) bool { return i.Key == name })
		if labels[name] == elsewhere && at >= 0 {
			tags[key] = items[at].Value
		}
	}
	return tags
}

// machineOf returns the name of the machine that an instance is of: that of its label, or its own
// where MCM made it.
func (i instance) machineOf() string {
	if name := codec.Decode(i.Labels)[machineTag]; name != "" {
		return name
	}
	return i.Name
}

// owns reports whether an instance is provably of r.
func (s *spec) owns(i instance, r cloud.Ref) bool {
	return s.has(i) && driverkit.IsOf(r, codec.Decode(i.Labels)[ownerTag], i.machineOf())
}

// has reports whether an instance is one of the class, as its network tags say.
func (s *spec) has(i instance) bool {
	set := map[string]string{}
	for _, tag := range i.Tags.Items {
		set[tag] = ""
	}
	return driverkit.Carries(set, s.ownership)
}

// marks are the labels that make a disk one of the class: disks have no network tags.
func (s *spec) marks() map[string]string {
	all := map[string]string{}
	for _, tag := range s.ownership {
		all[tag] = "1"
	}
	return all
}
