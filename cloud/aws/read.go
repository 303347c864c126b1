package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"iter"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opGet      = "describe instance"
	opReboot   = "reboot instance"
	opConsole  = "get console output"
	opList     = "list resources"
	opCapacity = "describe instance type"
)

// Get returns the VM of r. EC2 still knows why one was terminated.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opGet, r.Class)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err)
	}
	found, err := a.find(ctx, opGet, s, r)
	if err != nil {
		return cloud.VM{}, err
	}
	var vms []cloud.VM
	for _, t := range found {
		if !t.gone() {
			vms = append(vms, a.vmOf(t))
		}
	}
	if len(vms) == 0 && len(found) > 0 {
		vm := a.vmOf(found[len(found)-1])
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, opGet, vm.Reason, "instance %s is terminated: %s", vm.ID, vm.Message)
	}
	return driverkit.One(opGet, r, vms)
}

// Reboot resets the instance of r, which EC2 does hard after four minutes if the guest does not
// shut down, or starts it if it is stopped.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	s, err := driverkit.SpecOf[*spec](opReboot, r.Class)
	if err != nil {
		return err
	}
	vm, err := a.staying(ctx, opReboot, s, r)
	if err != nil {
		return err
	}
	var failed *cloud.Error
	if vm.state == string(types.InstanceStateNameStopping) {
		return cloud.Errorf(cloud.Unavailable, opReboot, cloud.ReasonVMBusy, "instance %s is being stopped", vm.id)
	}
	if vm.state == string(types.InstanceStateNameStopped) {
		_, failed = ask(ctx, a, opReboot, a.client.StartInstances, &ec2.StartInstancesInput{InstanceIds: []string{vm.id}})
	} else {
		_, failed = ask(ctx, a, opReboot, a.client.RebootInstances, &ec2.RebootInstancesInput{InstanceIds: []string{vm.id}})
	}
	if failed == nil {
		return nil
	}
	return driverkit.Busy(driverkit.Restrict(failed, cloud.NotFound, cloud.Invalid, cloud.Exhausted),
		"IncorrectInstanceState", "IncorrectState")
}

// Console returns the console of the instance of r as it is now where the instance type is built on
// Nitro, and otherwise as EC2 has posted it after the last start.
func (a *account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	s, err := driverkit.SpecOf[*spec](opConsole, r.Class)
	if err != nil {
		return "", err
	}
	vm, err := a.staying(ctx, opConsole, s, r)
	if err != nil {
		return "", driverkit.Restrict(err, cloud.NotFound, cloud.Invalid)
	}
	get := func(latest *bool) (*ec2.GetConsoleOutputOutput, *cloud.Error) {
		return ask(ctx, a, opConsole, a.client.GetConsoleOutput,
			&ec2.GetConsoleOutputInput{InstanceId: awssdk.String(vm.id), Latest: latest})
	}
	out, failed := get(awssdk.Bool(true))
	if failed != nil && failed.Reason == "UnsupportedOperation" {
		out, failed = get(nil)
	}
	if failed != nil {
		return "", driverkit.Restrict(failed, cloud.NotFound, cloud.Invalid)
	}
	text, err := base64.StdEncoding.DecodeString(awssdk.ToString(out.Output))
	if err != nil {
		return "", cloud.Errorf(cloud.Unavailable, opConsole, "BadAnswer", "the answer of EC2 is no base64")
	}
	return cloud.ConsoleTail(string(text)), nil
}

// List yields what carries the ownership tags of c: instances, volumes, interfaces.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	s, err := driverkit.SpecOf[*spec](opList, c)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	list := func(kind cloud.Kind, filters ...types.Filter) driverkit.KindList {
		all := a.pages(ctx, opList, kind, append(filters, owned(s.ownership)...))
		return driverkit.KindList{Kind: kind, All: driverkit.Select(all, func(t resource) (cloud.Resource, bool, error) {
			return a.resourceOf(t), !t.gone(), nil
		})}
	}
	lists := []driverkit.KindList{
		list(cloud.KindVM, notTerminated()), list(cloud.KindDisk), list(cloud.KindInterface),
	}
	if store, private := a.bootData(s); private {
		lists = append(lists, driverkit.KindList{Kind: bootdata.Kind, All: store.List(ctx, opList)})
	}
	return driverkit.List(kinds, lists...)
}

// Capacity returns what a node of c will offer.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	s, err := driverkit.SpecOf[*spec](opCapacity, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	out, failed := ask(ctx, a, opCapacity, a.client.DescribeInstanceTypes, &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{types.InstanceType(s.MachineType)},
	})
	if s.MachineType == "" || failed == nil && len(out.InstanceTypes) == 0 {
		failed = cloud.Errorf(cloud.Invalid, opCapacity, "InvalidInstanceType", "there is no instance type %q", s.MachineType)
	}
	if failed != nil {
		failed = driverkit.WithField(failed, "machineType", "name an instance type that the region offers")
		return cloud.Capacity{}, driverkit.Restrict(failed, cloud.Invalid, cloud.NotFound)
	}
	return capacityOf(out.InstanceTypes[0], s), nil
}

// capacityOf returns what an instance type offers. Pods are as many as a kubelet
// takes by default: how many addresses there are depends on the network plugin.
func capacityOf(t types.InstanceTypeInfo, s *spec) cloud.Capacity {
	c := cloud.Capacity{Resources: map[string]string{"pods": "110", "gpu": fmt.Sprint(gpus(t))}}
	if n := cpus(t, s.CPUOptions); n > 0 {
		c.Resources["cpu"] = fmt.Sprint(n)
	}
	if t.MemoryInfo != nil {
		c.Resources["memory"] = driverkit.MiB(awssdk.ToInt64(t.MemoryInfo.SizeInMiB))
	}
	for _, d := range s.BlockDevices {
		if len(s.BlockDevices) == 1 || d.DeviceName == rootDevice {
			c.Resources["ephemeral-storage"] = fmt.Sprintf("%dGi", d.EBS.VolumeSize)
		}
	}
	if t.ProcessorInfo != nil {
		for _, name := range t.ProcessorInfo.SupportedArchitectures { // i386 may stand beside x86_64
			c.Architecture = cmp.Or(driverkit.Architecture(string(name)), c.Architecture)
		}
	}
	return c
}

func cpus(t types.InstanceTypeInfo, o *cpuSpec) int32 {
	switch {
	case o != nil && o.CoreCount != nil && o.ThreadsPerCore != nil:
		return *o.CoreCount * *o.ThreadsPerCore
	case t.VCpuInfo != nil:
		return awssdk.ToInt32(t.VCpuInfo.DefaultVCpus)
	}
	return 0
}

func gpus(t types.InstanceTypeInfo) int32 {
	count := int32(0)
	if t.GpuInfo != nil {
		for _, g := range t.GpuInfo.Gpus {
			count += awssdk.ToInt32(g.Count)
		}
	}
	return count
}
