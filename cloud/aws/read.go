package aws

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opGet      = "describe instance"
	opList     = "list resources"
	opCapacity = "describe instance type"
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opGet, r.Class)
	if err != nil {
		return cloud.VM{}, unclassed(err)
	}
	found, err := a.find(ctx, opGet, s, r)
	if err != nil {
		return cloud.VM{}, err
	}
	return a.one(r, found)
}

// unclassed is an error about a class, of a call that has no code for it.
func unclassed(err error) error {
	if e, ok := err.(*cloud.Error); ok && e.Code == cloud.Invalid { //nolint:errorlint // SpecOf returns nothing else
		return cloud.Errorf(cloud.Unknown, e.Op, e.Reason, "%w", e.Err)
	}
	return err
}

// one returns the VM among those that were found. One that is going counts only
// where there is no other. Of several nobody knows which is the machine's.
func (a *account) one(r cloud.Ref, found []resource) (cloud.VM, error) {
	staying := slices.DeleteFunc(slices.Clone(found), func(t resource) bool { return t.going() || t.gone() })
	switch {
	case len(staying) == 1:
		return a.vmOf(staying[0]), nil
	case len(staying) > 1:
		var ids []string
		for _, t := range staying {
			ids = append(ids, t.id)
		}
		slices.Sort(ids)
		return cloud.VM{}, cloud.Errorf(cloud.Unknown, opGet, "SeveralVMs", "machine %q has %d VMs: %s; delete all but one",
			r.Name, len(ids), strings.Join(ids, ", "))
	}
	if i := slices.IndexFunc(found, resource.going); i >= 0 {
		return a.vmOf(found[i]), nil
	}
	if len(found) > 0 { // terminated: EC2 still knows why
		vm := a.vmOf(found[len(found)-1])
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, opGet, vm.Reason, "instance %s is terminated: %s", vm.ID, vm.Message)
	}
	return cloud.VM{}, cloud.Errorf(cloud.NotFound, opGet, codeInstanceNotFound, "EC2 shows no instance of machine %q",
		r.Name)
}

// List yields what carries the ownership tags of c: instances, volumes, interfaces.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		s, err := driverkit.SpecOf[*spec](opList, c)
		if err != nil {
			yield(cloud.Resource{}, unclassed(err))
			return
		}
		for _, kind := range []cloud.Kind{cloud.KindVM, cloud.KindDisk, cloud.KindInterface} {
			if !cloud.Wants(kinds, kind) {
				continue
			}
			filters := owned(s.ownership)
			if kind == cloud.KindVM {
				filters = append(filters, notTerminated())
			}
			for t, err := range a.pages(ctx, opList, kind, filters) {
				if err != nil {
					if cloud.CodeOf(err) == cloud.NotFound { // of what it did not ask for
						err = cloud.Errorf(cloud.Unknown, opList, codeInstanceNotFound, "%w", err)
					}
					yield(cloud.Resource{}, err)
					return
				}
				if !t.gone() && !yield(a.resourceOf(t), nil) {
					return
				}
			}
		}
	}
}

// Capacity returns what a node of c will offer.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	s, err := driverkit.SpecOf[*spec](opCapacity, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	const field, remedy = "machineType", "name an instance type that the region offers"
	out, failed := ask(ctx, a, opCapacity, a.client.DescribeInstanceTypes, &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{types.InstanceType(s.MachineType)},
	})
	if s.MachineType == "" || failed == nil && len(out.InstanceTypes) == 0 {
		failed = cloud.Errorf(cloud.Invalid, opCapacity, "InvalidInstanceType", "there is no instance type %q", s.MachineType)
	}
	if failed != nil {
		if failed.Code != cloud.Invalid {
			return cloud.Capacity{}, about(failed)
		}
		return cloud.Capacity{}, invalid(failed, field, remedy)
	}
	return capacityOf(out.InstanceTypes[0], s), nil
}

// capacityOf returns what an instance type offers. Pods are as many as a kubelet
// takes by default: how many addresses there are depends on the network plugin.
func capacityOf(t types.InstanceTypeInfo, s *spec) cloud.Capacity {
	c := cloud.Capacity{Resources: map[string]string{"pods": "110"}}
	if t.VCpuInfo != nil {
		c.Resources["cpu"] = fmt.Sprint(awssdk.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if o := s.CPUOptions; o != nil && o.CoreCount != nil && o.ThreadsPerCore != nil {
		c.Resources["cpu"] = fmt.Sprint(*o.CoreCount * *o.ThreadsPerCore)
	}
	if t.MemoryInfo != nil {
		c.Resources["memory"] = memory(awssdk.ToInt64(t.MemoryInfo.SizeInMiB))
	}
	c.Resources["gpu"] = fmt.Sprint(gpus(t))
	for _, d := range s.BlockDevices {
		if len(s.BlockDevices) == 1 || d.DeviceName == rootDevice {
			c.Resources["ephemeral-storage"] = fmt.Sprintf("%dGi", d.EBS.VolumeSize)
		}
	}
	c.Architecture = architecture(t)
	return c
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

// architecture is Kubernetes' name of the CPU's; empty for one that it does not know.
func architecture(t types.InstanceTypeInfo) string {
	found := ""
	if t.ProcessorInfo != nil {
		for _, arch := range t.ProcessorInfo.SupportedArchitectures {
			switch arch { //nolint:exhaustive // Kubernetes has no others
			case types.ArchitectureTypeX8664:
				found = "amd64"
			case types.ArchitectureTypeArm64:
				found = "arm64"
			}
		}
	}
	return found
}

// memory returns a quantity as people write it.
func memory(mib int64) string {
	const gib = 1024
	if mib%gib == 0 {
		return fmt.Sprintf("%dGi", mib/gib)
	}
	return fmt.Sprintf("%dMi", mib)
}
