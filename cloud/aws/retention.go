package aws

import (
	"context"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opRetention = "record retention"

// retentionOf returns what becomes of a volume or an interface. RunInstances says it for each of
// them (DeleteOnTermination), and EC2 shows it for as long as the part is attached. Of a loose
// one EC2 knows nothing any more: its tag does.
func retentionOf(attachedTo string, deleteOnTermination *bool, tags map[string]string) cloud.Retention {
	switch {
	case attachedTo == "":
		return cloud.RetentionOf(tags[cloud.OnTerminationTag])
	case awssdk.ToBool(deleteOnTermination):
		return cloud.RetentionDelete
	}
	return cloud.RetentionKeep
}

// partsOf returns the volumes and interfaces that were made with an instance of r and are part
// of it.
func (a *account) partsOf(ctx context.Context, op string, s *spec, r cloud.Ref, instance string) ([]resource, error) {
	var all []resource
	for _, kind := range []cloud.Kind{cloud.KindDisk, cloud.KindInterface} {
		found, err := a.ofName(ctx, op, kind, s, r)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if p.attachedTo == instance && !p.going() {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// asked returns what the class asks to become of all volumes and of all interfaces; empty where it
// asks for some to stay and others to go.
func (s *spec) asked() (volumes, interfaces cloud.Retention) {
	var goes [2][]*bool
	for _, d := range s.BlockDevices {
		goes[0] = append(goes[0], d.EBS.DeleteOnTermination)
	}
	for _, n := range s.NetworkInterfaces {
		goes[1] = append(goes[1], n.DeleteOnTermination)
	}
	var all [2]cloud.Retention
	for i, each := range goes {
		keep, deletes := false, false
		for _, with := range each {
			keep, deletes = keep || !*with, deletes || *with
		}
		switch {
		case !keep:
			all[i] = cloud.RetentionDelete
		case !deletes:
			all[i] = cloud.RetentionKeep
		}
	}
	return all[0], all[1]
}

// keepsParts reports whether EC2 shows parts of an instance that stay when it is terminated; volumes
// of pods do, too.
func keepsParts(i types.Instance) bool {
	return slices.ContainsFunc(i.BlockDeviceMappings, func(d types.InstanceBlockDeviceMapping) bool {
		return d.Ebs != nil && !awssdk.ToBool(d.Ebs.DeleteOnTermination)
	}) || slices.ContainsFunc(i.NetworkInterfaces, func(n types.InstanceNetworkInterface) bool {
		return n.Attachment != nil && !awssdk.ToBool(n.Attachment.DeleteOnTermination)
	})
}

// decided records what becomes of the parts of a new instance whose class keeps some and not others:
// RunInstances gives all volumes the same tags, and all interfaces. It waits until EC2 shows those
// that the class asks for.
func (a *account) decided(ctx context.Context, s *spec, r cloud.CreateRequest, t resource) (time.Duration, error) {
	volumes, interfaces := s.asked()
	if _, known := a.recorded.Known(t.id); known || volumes != "" && interfaces != "" {
		return 0, nil
	}
	parts, err := a.partsOf(ctx, opRetention, s, r.Ref, t.id)
	if err != nil {
		return 0, err
	}
	if err := a.record(ctx, opRetention, parts); err != nil {
		return 0, err
	}
	disks := len(slices.DeleteFunc(slices.Clone(parts), func(p resource) bool { return p.kind != cloud.KindDisk }))
	shown := disks >= len(s.BlockDevices) && len(parts)-disks >= len(s.NetworkInterfaces)
	// A class that has changed since may ask for more: EC2 then has had its time to show what there is.
	if !shown && a.now().Sub(t.made) < settleTime {
		return waitToFinish, nil
	}
	a.recorded.Put(t.id, true)
	return 0, nil
}

// record tags parts of instances with what becomes of them, where they lack it. That the tags are
// refused for good is no error: EC2 itself keeps or deletes what is attached, and what comes
// loose without a tag is reported, and stays.
func (a *account) record(ctx context.Context, op string, parts []resource) error {
	lacking := map[cloud.Retention][]string{}
	for _, p := range parts {
		if p.tags[cloud.OnTerminationTag] != string(p.retention) {
			lacking[p.retention] = append(lacking[p.retention], p.id)
		}
	}
	for _, retention := range []cloud.Retention{cloud.RetentionKeep, cloud.RetentionDelete} {
		for ids := range slices.Chunk(lacking[retention], batchMax) {
			_, failed := ask(ctx, a, op, a.client.CreateTags, &ec2.CreateTagsInput{
				Resources: ids, Tags: tagList(map[string]string{cloud.OnTerminationTag: string(retention)}),
			})
			err := setting(failed)
			if code := cloud.CodeOf(err); err != nil && code != cloud.Denied && code != cloud.Invalid {
				return err
			}
		}
	}
	return nil
}

// RecordRetention tags volumes and interfaces that are part of instances. It looks at them first:
// one that has come loose is not decided about by what EC2 said before.
func (a *account) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	s, err := driverkit.SpecOf[*spec](opRetention, c)
	if err != nil {
		return driverkit.Restrict(err)
	}
	for _, kind := range []struct {
		of     cloud.Kind
		filter string
	}{{cloud.KindDisk, "volume-id"}, {cloud.KindInterface, "network-interface-id"}} {
		var ids []string
		for _, p := range parts {
			if p.Kind == kind.of {
				ids = append(ids, p.ID)
			}
		}
		for some := range slices.Chunk(ids, batchMax) {
			filters := append(owned(s.ownership), filter(kind.filter, some...))
			found, err := driverkit.Collect(a.pages(ctx, opRetention, kind.of, filters))
			if err != nil {
				return err
			}
			found = slices.DeleteFunc(found, func(p resource) bool { return p.attachedTo == "" })
			if err := a.record(ctx, opRetention, found); err != nil {
				return err
			}
		}
	}
	return nil
}
