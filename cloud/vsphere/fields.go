package vsphere

import (
	"context"
	"maps"
	"slices"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// fields are the definitions of custom attributes, in which MCM keeps tags.
// They are the same for all VMs and only ever grow, so they are remembered.
type fields struct {
	v     *vcenter
	known *driverkit.Cache[string, definitions]
}

// definitions are the keys of attributes that VMs can have, by name, and the names of all.
type definitions struct {
	keys  map[string]int32
	names map[int32]string
}

func newFields(v *vcenter) fields {
	return fields{v, driverkit.NewCache[string, definitions](driverkit.CacheOptions{})}
}

// load asks vCenter for all definitions.
func (f *fields) load(ctx context.Context) (definitions, error) {
	var manager mo.CustomFieldsManager
	err := property.DefaultCollector(f.v.Client).RetrieveOne(ctx, *f.v.ServiceContent.CustomFieldsManager,
		[]string{"field"}, &manager)
	all := definitions{map[string]int32{}, map[int32]string{}}
	if err != nil {
		return all, err
	}
	for _, d := range manager.Field {
		all.names[d.Key] = d.Name
		if d.ManagedObjectType == "" || d.ManagedObjectType == "VirtualMachine" {
			all.keys[d.Name] = d.Key
		}
	}
	f.known.Put("", all)
	return all, nil
}

// names returns the names of all definitions. It asks vCenter when one of
// values has none.
func (f *fields) names(ctx context.Context, values map[int32]string) (map[int32]string, error) {
	all, _ := f.known.Known("")
	for key := range values {
		if _, there := all.names[key]; !there {
			all, err := f.load(ctx)
			return all.names, err
		}
	}
	return all.names, nil
}

// key returns the key of the attribute of that name, which is made if there is
// none.
func (f *fields) key(ctx context.Context, name string) (int32, error) {
	all, _ := f.known.Known("")
	if key, there := all.keys[name]; there {
		return key, nil
	}
	key, there, err := f.loaded(ctx, name)
	if err != nil || there {
		return key, err
	}
	made, err := methods.AddCustomFieldDef(ctx, f.v, &types.AddCustomFieldDef{
		This: *f.v.ServiceContent.CustomFieldsManager, Name: name, MoType: "VirtualMachine",
	})
	if err == nil {
		f.known.Forget("") // this one is not among them
		return made.Returnval.Key, nil
	}
	if isFault[types.DuplicateName](err) { // somebody was faster
		if key, there, loading := f.loaded(ctx, name); there || loading != nil {
			return key, loading
		}
	}
	return 0, err
}

// loaded returns the key of the attribute of that name as vCenter shows it now.
func (f *fields) loaded(ctx context.Context, name string) (key int32, there bool, err error) {
	all, err := f.load(ctx)
	key, there = all.keys[name]
	return key, there, err
}

// set gives a VM the attributes that it lacks.
func (f *fields) set(ctx context.Context, vm *seen, tags map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		key, err := f.key(ctx, name)
		if err != nil {
			return err
		}
		if value, there := vm.values[key]; there && value == tags[name] {
			continue
		}
		_, err = methods.SetField(ctx, f.v, &types.SetField{
			This: *f.v.ServiceContent.CustomFieldsManager, Entity: vm.ref, Key: key, Value: tags[name],
		})
		if err != nil {
			return err
		}
	}
	return nil
}
