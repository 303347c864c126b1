package aws

import (
	"context"
	"maps"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// tagLimits are what EC2 takes as tags ("Tag your Amazon EC2 resources" in the EC2 user
// guide): any character.
var tagLimits = cloud.TagLimits{KeyMax: 127, ValueMax: 256, Max: 50}

// validateTags checks the tags of the class.
func (s *spec) validateTags() {
	s.CheckTags(cloud.BlocksCreate, "tags", s.Tags, tagLimits)
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		switch {
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			s.Block("tags["+key+"]", "begins with aws:, which is reserved; give it another key")
		case key == nameTag || key == ownerTag || key == cloud.OnTerminationTag:
			s.Warn("tags["+key+"]", "is set by the manager on every resource and has no effect here; remove it")
		}
	}
}

// tags returns the tags of all that is made for r.
func (s *spec) tags(r cloud.CreateRequest) map[string]string {
	// What becomes of each part is known once it is there, and no class says it.
	own := map[string]string{nameTag: r.Name, ownerTag: r.OwnerID, cloud.OnTerminationTag: ""}
	if s.persistent() {
		own[persistentTag] = persistent
	}
	return driverkit.MergeTags(r.Tags, s.Tags, own)
}

const opTags = "set tags"

// fixedTags are the keys of a class's tags that tell whose a resource is.
func (s *spec) fixedTags() []string { return append(slices.Clone(s.ownership), nameTag) }

// UserTags returns the tags of c that SetTags sets.
func (d *Driver) UserTags(c cloud.Class) map[string]string {
	s, ok := c.Spec.(*spec)
	if !ok {
		return map[string]string{}
	}
	return driverkit.TagCodec{}.UserTags(s.Tags, s.fixedTags()...)
}

// SetTags changes the tags of the instance of r, and of its volumes and interfaces that
// carry the ownership tags: disks of persistent volumes are not the class's.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	s, err := driverkit.SpecOf[*spec](opTags, r.Class)
	if err != nil {
		return err
	}
	ids, err := a.tagged(ctx, s, r)
	if err != nil {
		return err
	}
	// Obsolete keys go first: with what replaces them, there may be more than EC2 takes.
	codec := driverkit.TagCodec{}
	var gone []types.Tag
	for _, key := range codec.Obsolete(obsolete, s.Tags, s.fixedTags()...) {
		gone = append(gone, types.Tag{Key: &key}) // without a value: whatever it is
	}
	if len(gone) > 0 {
		in := &ec2.DeleteTagsInput{Resources: ids, Tags: gone}
		if _, failed := ask(ctx, a, opTags, a.client.DeleteTags, in); failed != nil {
			return setting(failed)
		}
	}
	set := tagList(codec.UserTags(s.Tags, s.fixedTags()...))
	if len(set) == 0 {
		return nil
	}
	_, failed := ask(ctx, a, opTags, a.client.CreateTags, &ec2.CreateTagsInput{Resources: ids, Tags: set})
	return setting(failed)
}

// tagged returns the ids of the instance of r and of what was made with it.
func (a *account) tagged(ctx context.Context, s *spec, r cloud.Ref) ([]string, error) {
	vm, err := a.staying(ctx, opTags, s, r)
	if err != nil {
		return nil, err
	}
	ids := []string{vm.id}
	for _, kind := range []cloud.Kind{cloud.KindDisk, cloud.KindInterface} {
		parts, err := a.ofName(ctx, opTags, kind, s, r)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			if p.attachedTo == vm.id && !p.going() {
				ids = append(ids, p.id)
			}
		}
	}
	return ids, nil
}

// staying returns the one instance of r that is not being terminated.
func (a *account) staying(ctx context.Context, op string, s *spec, r cloud.Ref) (resource, error) {
	found, err := a.find(ctx, op, s, r)
	if err != nil {
		return resource{}, err
	}
	found = slices.DeleteFunc(found, func(t resource) bool { return t.gone() || t.going() })
	if len(found) != 1 {
		return resource{}, cloud.Errorf(cloud.NotFound, op, codeInstanceNotFound, "EC2 shows %d instances of machine %q",
			len(found), r.Name)
	}
	return found[0], nil
}

func tagList(tags map[string]string) []types.Tag {
	var all []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, types.Tag{Key: awssdk.String(key), Value: awssdk.String(tags[key])})
	}
	return all
}

// setting is e as the error of a change of tags; nil if it is nil. A resource that has gone
// meanwhile is one that the next call does not find.
func setting(e *cloud.Error) error {
	if e == nil {
		return nil
	}
	if e.Reason == "InvalidID" || e.Reason == "InvalidVolume.NotFound" || e.Code == cloud.NotFound {
		e.Code = cloud.Unavailable
	}
	return driverkit.Restrict(e, cloud.Invalid)
}
