package vsphere

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// fields are the definitions of custom attributes, in which MCM keeps tags.
// They are the same for all VMs and only ever grow, so they are remembered.
type fields struct {
	v *vcenter

	mu    sync.Mutex
	keys  map[string]int32 // by name
	named map[int32]string
}

// load asks vCenter for all definitions.
func (f *fields) load(ctx context.Context) error {
	var manager mo.CustomFieldsManager
	err := property.DefaultCollector(f.v.Client).RetrieveOne(ctx, *f.v.ServiceContent.CustomFieldsManager,
		[]string{"field"}, &manager)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys, f.named = map[string]int32{}, map[int32]string{}
	for _, d := range manager.Field {
		f.named[d.Key] = d.Name
		if d.ManagedObjectType == "" || d.ManagedObjectType == "VirtualMachine" {
			f.keys[d.Name] = d.Key
		}
	}
	return nil
}

// names returns the names of all definitions. It asks vCenter when one of
// values has none.
func (f *fields) names(ctx context.Context, values map[int32]string) (map[int32]string, error) {
	f.mu.Lock()
	known := maps.Clone(f.named)
	f.mu.Unlock()
	for key := range values {
		if _, there := known[key]; there {
			continue
		}
		if err := f.load(ctx); err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return maps.Clone(f.named), nil
	}
	return known, nil
}

// key returns the key of the attribute of that name, which is made if there is
// none.
func (f *fields) key(ctx context.Context, name string) (int32, error) {
	if key, ok := f.look(name); ok {
		return key, nil
	}
	if err := f.load(ctx); err != nil {
		return 0, err
	}
	if key, ok := f.look(name); ok {
		return key, nil
	}
	made, err := methods.AddCustomFieldDef(ctx, f.v, &types.AddCustomFieldDef{
		This: *f.v.ServiceContent.CustomFieldsManager, Name: name, MoType: "VirtualMachine",
	})
	if isFault[types.DuplicateName](err) { // somebody was faster
		if err := f.load(ctx); err != nil {
			return 0, err
		}
		if key, ok := f.look(name); ok {
			return key, nil
		}
	}
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[name], f.named[made.Returnval.Key] = made.Returnval.Key, name
	return made.Returnval.Key, nil
}

func (f *fields) look(name string) (int32, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, ok := f.keys[name]
	return key, ok
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
