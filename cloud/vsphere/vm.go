package vsphere

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// markKey is the entry of a VM's extra configuration that says whose it is. It
// is there from birth, and the guest cannot change it.
const markKey = "mcm.cluster.x-k8s.io"

// mark is what stands there.
type mark struct {
	Machine string            `json:"machine,omitempty"`
	Owner   string            `json:"owner,omitempty"`
	Token   string            `json:"token,omitempty"`
	Phase   string            `json:"phase,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
	Disks   []string          `json:"disks,omitempty"` // UUIDs of those that came with the clone
	Zone    string            `json:"zone,omitempty"`
	DRS     *membership       `json:"drs,omitempty"` // nil for none
}

// The phases of a VM.
const (
	phaseCloned     = "cloned"
	phaseConfigured = "configured" // and may be powered on
	phaseStarted    = "started"    // was seen powered on
)

// entry returns the mark as an entry of the extra configuration.
func (m mark) entry() types.BaseOptionValue {
	text, _ := json.Marshal(m) // strings only, so it never fails
	return &types.OptionValue{Key: markKey, Value: string(text)}
}

// seen is a VM as vCenter shows it.
type seen struct {
	ref        types.ManagedObjectReference
	name       string
	bios       string
	created    time.Time
	template   bool
	power      types.VirtualMachinePowerState
	connection types.VirtualMachineConnectionState
	ip         string
	hostName   string
	net        []types.GuestNicInfo
	values     map[int32]string // custom fields, by key
	mark       *mark            // nil on VMs that MCM made
	tasks      []types.TaskInfo // recent ones, oldest first
	tags       map[string]string
}

// machine is the name of the machine that the VM belongs to.
func (v *seen) machine() string {
	if v.mark != nil {
		return v.mark.Machine
	}
	return v.name
}

// owner is the owner id; empty on VMs that MCM made.
func (v *seen) owner() string {
	if v.mark == nil {
		return ""
	}
	return v.mark.Owner
}

// zone is where the VM was made; empty if the class named no zone.
func (v *seen) zone() string {
	if v.mark == nil {
		return ""
	}
	return v.mark.Zone
}

// half reports whether the VM was cloned and lacks all that makes it the machine's.
func (v *seen) half() bool { return v.mark != nil && v.mark.Phase == phaseCloned }

// vmPaths are the properties of a VM that its state comes from. Nothing of what
// it boots with is among them.
func vmPaths() []string {
	return []string{
		"name", "config.uuid", "config.createDate", "config.template", `config.extraConfig["` + markKey + `"]`,
		"runtime.powerState", "runtime.connectionState", "guest.ipAddress", "guest.hostName", "guest.net", "customValue",
	}
}

// read returns the VM as it is now, with its recent tasks; nil if it is gone.
func (a *account) read(ctx context.Context, ref types.ManagedObjectReference) (*seen, error) {
	filter := types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: ref, SelectSet: []types.BaseSelectionSpec{
			&types.TraversalSpec{Type: "VirtualMachine", Path: "recentTask"},
		}}},
		PropSet: []types.PropertySpec{
			{Type: "VirtualMachine", PathSet: vmPaths()}, {Type: "Task", PathSet: []string{"info"}},
		},
	}
	var vm *seen
	var tasks []types.TaskInfo
	for o, err := range a.objects(ctx, filter, pageSize) {
		if isFault[types.ManagedObjectNotFound](err) {
			return nil, nil //nolint:nilnil // there is none
		}
		if err != nil {
			return nil, err
		}
		if o.Obj.Type != "Task" {
			vm = seenOf(o)
			continue
		}
		for _, p := range o.PropSet {
			if info, ok := p.Val.(types.TaskInfo); ok {
				tasks = append(tasks, info)
			}
		}
	}
	if vm == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	slices.SortStableFunc(tasks, func(a, b types.TaskInfo) int { return a.QueueTime.Compare(b.QueueTime) })
	vm.tasks = tasks
	return vm, a.name(ctx, vm)
}

const (
	// pageSize is how many VMs one answer of a listing holds.
	pageSize = 100
	// indexPage is the same where only names and marks are read.
	indexPage = 5000
	// cancelWait is how long the end of a listing may take that no caller waits for.
	cancelWait = 500 * time.Millisecond
)

// markPaths are the properties of a VM that say which machine it is of.
func markPaths() []string {
	return []string{"name", "config.template", `config.extraConfig["` + markKey + `"]`}
}

// objects yields what a filter selects, page by page. vCenter keeps what was not
// fetched until the session ends, so a listing that is left early is cancelled.
func (a *account) objects(ctx context.Context, filter types.PropertyFilterSpec, size int32) iter.Seq2[
	types.ObjectContent, error,
] {
	return func(yield func(types.ObjectContent, error) bool) {
		left := "" // the token of what was not fetched
		defer func() { a.abandon(ctx, left) }()
		driverkit.Pages(ctx, func(ctx context.Context, token string) ([]types.ObjectContent, string, error) {
			page, err := a.page(ctx, filter, size, token)
			if err == nil || fault(err) != nil {
				left = page.Token // after a fault vCenter keeps nothing
			}
			return page.Objects, page.Token, err
		})(yield)
	}
}

// page returns the first page of what a filter selects, or the one of that token.
func (a *account) page(ctx context.Context, filter types.PropertyFilterSpec, size int32, token string) (
	page types.RetrieveResult, err error,
) {
	collector := a.v.ServiceContent.PropertyCollector
	if token == "" {
		first, err := methods.RetrievePropertiesEx(ctx, a.v, &types.RetrievePropertiesEx{
			This: collector, SpecSet: []types.PropertyFilterSpec{filter}, Options: types.RetrieveOptions{MaxObjects: size},
		})
		if err != nil || first.Returnval == nil {
			return page, err
		}
		return *first.Returnval, nil
	}
	next, err := methods.ContinueRetrievePropertiesEx(ctx, a.v,
		&types.ContinueRetrievePropertiesEx{This: collector, Token: token})
	if err != nil {
		return page, err
	}
	return next.Returnval, nil
}

// abandon tells vCenter that no caller fetches what is left of a listing. An empty token
// leaves nothing.
func (a *account) abandon(ctx context.Context, token string) {
	if token == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	defer cancel()
	// it goes with the session otherwise
	_, _ = methods.CancelRetrievePropertiesEx(ctx, a.v, &types.CancelRetrievePropertiesEx{
		This: a.v.ServiceContent.PropertyCollector, Token: token,
	})
}

// scan yields these properties of every VM of the class's folder, whoever it belongs
// to, once.
func (a *account) scan(ctx context.Context, s *spec, paths []string, page int32) iter.Seq2[*seen, error] {
	return func(yield func(*seen, error) bool) {
		folder, err := a.inventory.find(ctx, s, "folder", s.Folder)
		if err != nil {
			yield(nil, err)
			return
		}
		skip := true
		filter := types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: folder, Skip: &skip, SelectSet: []types.BaseSelectionSpec{
				&types.TraversalSpec{Type: "Folder", Path: "childEntity"},
			}}},
			PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: paths}},
		}
		for o, err := range a.objects(ctx, filter, page) {
			if isFault[types.ManagedObjectNotFound](err) {
				a.inventory.forget() // the folder, perhaps
			}
			var vm *seen
			if err == nil {
				vm = seenOf(o)
				err = a.name(ctx, vm)
			}
			if !yield(vm, err) || err != nil {
				return
			}
		}
	}
}

// byUUID returns the VMs of that BIOS UUID, or else of that instance UUID.
func (a *account) byUUID(ctx context.Context, id string) ([]*seen, error) {
	index := object.NewSearchIndex(a.v.Client)
	for _, instance := range []bool{false, true} {
		refs, err := index.FindAllByUuid(ctx, nil, id, true, &instance)
		if err != nil {
			return nil, err
		}
		var found []*seen
		for _, ref := range refs {
			vm, err := a.read(ctx, ref.Reference())
			if err != nil {
				return nil, err
			}
			if vm != nil {
				found = append(found, vm)
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

// seenOf decodes the properties of a VM.
func seenOf(o types.ObjectContent) *seen {
	vm := &seen{ref: o.Obj, values: map[int32]string{}}
	for _, p := range o.PropSet {
		switch value := p.Val.(type) {
		case string:
			vm.text(p.Name, value)
		case bool:
			vm.template = value
		case time.Time:
			vm.created = value
		case types.VirtualMachinePowerState:
			vm.power = value
		case types.VirtualMachineConnectionState:
			vm.connection = value
		case types.ArrayOfGuestNicInfo:
			vm.net = value.GuestNicInfo
		case types.OptionValue:
			vm.mark = markOf(value.Value)
		case types.ArrayOfCustomFieldValue:
			vm.values = valuesOf(value)
		}
	}
	return vm
}

// valuesOf are the custom fields of a VM, by key.
func valuesOf(fields types.ArrayOfCustomFieldValue) map[int32]string {
	values := map[int32]string{}
	for _, v := range fields.CustomFieldValue {
		if text, ok := v.(*types.CustomFieldStringValue); ok {
			values[text.Key] = text.Value
		}
	}
	return values
}

// text takes a property that is a string.
func (v *seen) text(name, value string) {
	switch name {
	case "name":
		v.name = unescape(value)
	case "config.uuid":
		v.bios = strings.ToLower(value)
	case "guest.ipAddress":
		v.ip = value
	case "guest.hostName":
		v.hostName = value
	}
}

// markOf returns the mark in a value, or nil.
func markOf(value types.AnyType) *mark {
	text, ok := value.(string)
	var m mark
	if !ok || json.Unmarshal([]byte(text), &m) != nil {
		return nil
	}
	return &m
}

// name gives the VM its tags: those of the mark, and custom fields by name. A field that is
// empty, and not so in the mark, was emptied to remove a tag.
func (a *account) name(ctx context.Context, vm *seen) error {
	vm.tags = map[string]string{}
	if vm.mark != nil {
		maps.Copy(vm.tags, vm.mark.Tags)
	}
	if len(vm.values) == 0 {
		return nil
	}
	names, err := a.fields.names(ctx, vm.values)
	if err != nil {
		return err
	}
	for key, value := range vm.values {
		_, marked := vm.tags[names[key]]
		if names[key] != "" && (value != "" || vm.mark == nil || marked) {
			vm.tags[names[key]] = value
		}
	}
	return nil
}
