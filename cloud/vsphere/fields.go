package vsphere

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
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

const opTags = "set custom attributes"

// fixedTags are those of these keys that tell whose a VM is.
func fixedTags(keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return key != clusterTag && key != roleTag &&
			!strings.HasPrefix(key, clusterTagPrefix) && !strings.HasPrefix(key, roleTagPrefix)
	})
}

// userTags are the tags of the class that may change while its VMs exist.
func (s *spec) userTags() map[string]string {
	return driverkit.TagCodec{}.UserTags(s.Tags, fixedTags(slices.Collect(maps.Keys(s.Tags)))...)
}

// UserTags returns the tags of c that SetTags sets. Tags of vSphere are not among them.
func (d *Driver) UserTags(c cloud.Class) map[string]string {
	s, ok := c.Spec.(*spec)
	if !ok {
		return map[string]string{}
	}
	return s.userTags()
}

// SetTags changes the custom attributes of the VM of r, and then its mark. Its disks and
// interfaces have none.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	s, err := driverkit.SpecOf[*spec](opTags, r.Class)
	if err != nil {
		return err
	}
	vms, err := a.find(ctx, s, r)
	switch {
	case err != nil:
		return driverkit.Restrict(fail(opTags, err))
	case len(vms) == 0:
		return cloud.Errorf(cloud.NotFound, opTags, "NotFound", "vCenter shows no VM of machine %q", r.Name)
	case len(vms) > 1:
		return several(opTags, r, vms)
	}
	want, gone := s.userTags(), driverkit.TagCodec{}.Obsolete(obsolete, s.Tags, fixedTags(obsolete)...)
	if err := a.retag(ctx, vms[0], want, gone); err != nil {
		return driverkit.Restrict(fail(opTags, err), cloud.Invalid)
	}
	return nil
}

// retag gives a VM tags and removes others.
func (a *account) retag(ctx context.Context, vm *seen, want map[string]string, gone []string) error {
	if err := a.fields.set(ctx, vm, want); err != nil {
		return err
	}
	if err := a.fields.clear(ctx, vm, gone); err != nil || retagged(vm.mark, want, gone) == nil {
		return err
	}
	return a.remark(ctx, vm.ref, want, gone)
}

// retagged returns the mark with these tags and without others; nil if it is so already, or
// if there is none.
func retagged(was *mark, want map[string]string, gone []string) *mark {
	if was == nil {
		return nil
	}
	m := *was
	m.Tags = maps.Clone(m.Tags)
	if m.Tags == nil {
		m.Tags = map[string]string{}
	}
	maps.DeleteFunc(m.Tags, func(key, _ string) bool { return slices.Contains(gone, key) })
	if maps.Copy(m.Tags, want); maps.Equal(m.Tags, was.Tags) {
		return nil
	}
	return &m
}

// remark asks for a mark with these tags, unless another change of the VM is under way or
// comes between. It is not done before a later call sees the mark: the change may fail.
func (a *account) remark(ctx context.Context, ref types.ManagedObjectReference, want map[string]string,
	gone []string,
) error {
	c, err := a.configuration(ctx, ref) // before the mark: a change of that after this one is refused
	if err != nil {
		return err
	}
	vm, err := a.read(ctx, ref)
	switch {
	case err != nil:
		return err
	case vm == nil:
		return cloud.Errorf(cloud.NotFound, opTags, "NotFound", "vCenter does not show %s any more", ref.Value)
	}
	why, changed := "another change of the VM is under way", retagged(vm.mark, want, gone)
	switch {
	case vm.busy():
	case changed == nil:
		return nil
	default:
		why = "the VM's mark is being changed"
		if err := a.reconfigure(ctx, ref, types.VirtualMachineConfigSpec{
			ChangeVersion: c.config.ChangeVersion, ExtraConfig: []types.BaseOptionValue{changed.entry()},
		}); err != nil {
			return err
		}
	}
	return &cloud.Error{
		Code: cloud.Unavailable, Op: opTags, Reason: "Reconfiguring", RetryAfter: configureWait, Err: errors.New(why),
	}
}

// clear empties attributes of a VM: vCenter has no other way to take one from it.
func (f *fields) clear(ctx context.Context, vm *seen, names []string) error {
	all, err := f.names(ctx, vm.values)
	if err != nil {
		return err
	}
	for key, value := range vm.values {
		if value == "" || !slices.Contains(names, all[key]) {
			continue
		}
		_, err := methods.SetField(ctx, f.v, &types.SetField{
			This: *f.v.ServiceContent.CustomFieldsManager, Entity: vm.ref, Key: key,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
