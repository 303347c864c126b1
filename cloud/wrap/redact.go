package wrap

import (
	"context"
	"iter"
	"runtime/debug"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// PanicReport is told where a driver panicked. The stack has no values in it.
type PanicReport func(driver, op string, stack []byte)

// Redact returns errors whose text is free of the account's secrets, in whole and in part, and of the
// user data, also where they are encoded in base64 or for URLs, and whose Code,
// Reason and chain are what they were. Whatever else a driver returns becomes a
// *cloud.Error of code Unknown, and so does a panic.
func Redact(report PanicReport) cloud.Middleware {
	return func(info cloud.AccountInfo, next cloud.Account) cloud.Account {
		return &redactor{layer: layer{next}, driver: info.Driver.Name, report: report, clean: info.Redactor}
	}
}

type redactor struct {
	layer
	driver string
	report PanicReport
	clean  *cloud.Redactor
}

// fix returns err as the contract wants it. userData is nil except in Create.
func (a *redactor) fix(op string, err error, userData []byte) error {
	err = a.clean.Error(op, err)
	if err != nil && len(userData) > 0 {
		err = cloud.BootDataRedactor(userData).Error(op, err)
	}
	return err
}

// caught turns a panic into the error that err points to. It has to be deferred
// itself.
func (a *redactor) caught(op string, err *error) {
	if p := recover(); p != nil {
		*err = a.panicked(op, p)
	}
}

// panicked is the error for a panic.
func (a *redactor) panicked(op string, p any) error {
	if a.report != nil {
		a.report(a.driver, op, debug.Stack())
	}
	return cloud.Errorf(cloud.Unknown, op, "Panic", "the driver panicked: %v", p)
}

// cleaned returns vm with the cloud's words free of secrets.
func (a *redactor) cleaned(vm cloud.VM) cloud.VM {
	vm.Reason, vm.Message = a.clean.Text(vm.Reason), a.clean.Text(vm.Message)
	return vm
}

// registered returns g with the cloud's words free of secrets.
func (a *redactor) registered(g cloud.Registration) cloud.Registration {
	g.Waiting = slices.Clone(g.Waiting)
	for i := range g.Waiting {
		g.Waiting[i] = a.clean.Text(g.Waiting[i])
	}
	return g
}

func (a *redactor) Create(ctx context.Context, r cloud.CreateRequest) (vm cloud.VM, err error) {
	defer func() { err = a.fix(opCreate, err, r.UserData) }()
	defer a.caught(opCreate, &err)
	vm, err = a.Account.Create(ctx, r)
	return a.cleaned(vm), err
}

func (a *redactor) Get(ctx context.Context, r cloud.Ref) (vm cloud.VM, err error) {
	defer func() { err = a.fix(OpGet, err, nil) }()
	defer a.caught(OpGet, &err)
	vm, err = a.Account.Get(ctx, r)
	return a.cleaned(vm), err
}

func (a *redactor) Delete(ctx context.Context, r cloud.Ref) (d cloud.Deletion, err error) {
	defer func() { err = a.fix(opDelete, err, nil) }()
	defer a.caught(opDelete, &err)
	return a.Account.Delete(ctx, r)
}

func (a *redactor) Capacity(ctx context.Context, c cloud.Class) (capacity cloud.Capacity, err error) {
	defer func() { err = a.fix(opCapacity, err, nil) }()
	defer a.caught(opCapacity, &err)
	return a.Account.Capacity(ctx, c)
}

// Scope is no secret, also where it stands in the Secret: masked, all accounts would be called the same.
func (a *redactor) Scope(ctx context.Context, c cloud.Class) (scope string, err error) {
	defer func() { err = a.fix(opScope, err, nil) }()
	defer a.caught(opScope, &err)
	return cloud.Scope(ctx, a.Account, c)
}

func (a *redactor) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) (err error) {
	defer func() { err = a.fix(opTags, err, nil) }()
	defer a.caught(opTags, &err)
	return cloud.SetTags(ctx, a.Account, r, obsolete)
}

func (a *redactor) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) (err error) {
	defer func() { err = a.fix(opRetention, err, nil) }()
	defer a.caught(opRetention, &err)
	return cloud.RecordRetention(ctx, a.Account, c, parts)
}

func (a *redactor) Reboot(ctx context.Context, r cloud.Ref) (err error) {
	defer func() { err = a.fix(opReboot, err, nil) }()
	defer a.caught(opReboot, &err)
	return cloud.Reboot(ctx, a.Account, r)
}

// Console returns the console without the account's secrets. Those of the boot data are unknown
// here.
func (a *redactor) Console(ctx context.Context, r cloud.Ref) (text string, err error) {
	defer func() { err = a.fix(opConsole, err, nil) }()
	defer a.caught(opConsole, &err)
	text, err = cloud.Console(ctx, a.Account, r)
	return cloud.ConsoleTail(a.clean.Text(text)), err
}

func (a *redactor) RemoveBootData(ctx context.Context, r cloud.Ref) (err error) {
	defer func() { err = a.fix(opBootData, err, nil) }()
	defer a.caught(opBootData, &err)
	return cloud.RemoveBootData(ctx, a.Account, r)
}

func (a *redactor) Register(ctx context.Context, r cloud.Ref, places []string) (g cloud.Registration, err error) {
	defer func() { err = a.fix(opRegister, err, nil) }()
	defer a.caught(opRegister, &err)
	g, err = cloud.Register(ctx, a.Account, r, places)
	return a.registered(g), err
}

func (a *redactor) Deregister(ctx context.Context, r cloud.Ref, places []string) (g cloud.Registration, err error) {
	defer func() { err = a.fix(opDeregister, err, nil) }()
	defer a.caught(opDeregister, &err)
	g, err = cloud.Deregister(ctx, a.Account, r, places)
	return a.registered(g), err
}

// List catches panics of the driver, and lets those of the caller's loop pass.
func (a *redactor) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		callers, stopped := false, false
		give := func(r cloud.Resource, err error) bool {
			callers = true
			stopped = stopped || !yield(r, a.fix(opList, err, nil)) || err != nil
			callers = false
			return !stopped
		}
		defer func() {
			if callers {
				return // a panic of the loop goes its way
			}
			if p := recover(); p != nil {
				err := a.panicked(opList, p)
				if !stopped {
					give(cloud.Resource{}, err)
				}
			}
		}()
		for r, err := range a.Account.List(ctx, c, kinds...) {
			if r.VM != nil {
				vm := a.cleaned(*r.VM)
				r.VM = &vm
			}
			if !give(r, err) {
				return
			}
		}
	}
}
