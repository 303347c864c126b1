package bootdata

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/s3"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Kind of the objects. The controllers need no name for it.
const Kind cloud.Kind = "boot-data"

const (
	defaultPrefix = "machines"
	noCluster     = "-"

	nameTag  = "Name"
	ownerTag = "mcm.cluster.x-k8s.io/owner-id"
)

// Store is where the boot data of a class is kept.
type Store struct {
	bucket s3.Bucket
	expiry time.Duration
	root   string            // that the keys of the class's objects begin with
	tags   map[string]string // that every object gets
}

// NewStore returns the store of a class that s asks for. Ownership are the tags that tell
// whose resources are; classes with equal keys share their objects.
func NewStore(service s3.Service, s *Spec, ownership map[string]string, keys []string) Store {
	expiry, err := s.expiry()
	if err != nil {
		expiry = defaultExpiry // nothing is created from such a class
	}
	const length = 8 // bytes
	hash := sha256.Sum256([]byte(strings.Join(keys, "\n")))
	tags := map[string]string{}
	for _, key := range keys {
		tags[key] = ownership[key]
	}
	return Store{
		bucket: s3.Bucket{Service: service, Name: s.Bucket, Owner: s.BucketOwner}, expiry: expiry, tags: tags,
		root: fmt.Sprintf("%s/%x/", cmp.Or(s.Prefix, defaultPrefix), hash[:length]),
	}
}

// ofOwner is what the keys of a machine's objects begin with.
func (s Store) ofOwner(ownerID string) string { return s.root + url.PathEscape(ownerID) + "/" }

// key is that of the object of an attempt.
func (s Store) key(r cloud.CreateRequest) string {
	return s.ofOwner(r.OwnerID) + url.PathEscape(r.Name) + "/" +
		url.PathEscape(cmp.Or(r.Tags[cloud.ClusterIDTag], noCluster)) + "/" + url.PathEscape(r.Token)
}

// Keep stores the boot data of r, and returns what the instance gets in its place, a secret:
// for one attempt it is the same as long as the session and half of the expiry last.
// Codes: those of Create.
func (s Store) Keep(ctx context.Context, op string, r cloud.CreateRequest) ([]byte, error) {
	if len(r.UserData) == 0 {
		return nil, nil
	}
	content, key := unpacked(r.UserData), s.key(r)
	object, e := s.store(ctx, op, key, s.upload(r, content))
	if e != nil {
		return nil, driverkit.Restrict(e, cloud.Invalid, cloud.TokenUsed)
	}
	link, e := s.presign(ctx, op, key, object.Made)
	if e != nil {
		return nil, e
	}
	return include(content, link), nil
}

// store puts the object, unless it is there already with this content. By the time of S3 it
// is then no older than half of the expiry.
func (s Store) store(ctx context.Context, op, key string, u s3.Upload) (s3.Object, *cloud.Error) {
	there, e := s.put(ctx, op, key, u)
	if e != nil {
		return s3.Object{}, e
	}
	found, e := s.look(ctx, op, key)
	switch {
	case e != nil:
		return s3.Object{}, e
	case there && found.Sum != "" && found.Sum != s3.Sum(u.Content):
		return s3.Object{}, cloud.Errorf(cloud.TokenUsed, op, "BootDataChanged",
			"bucket %s has other boot data for this attempt", s.bucket.Name)
	case found.Now.Sub(found.Made) <= s.expiry/2: //nolint:mnd // a half
		return found, nil
	}
	u.Replace = true
	if _, e = s.put(ctx, op, key, u); e != nil {
		return s3.Object{}, e
	}
	return s.look(ctx, op, key)
}

// look returns an object that was there a moment ago.
func (s Store) look(ctx context.Context, op, key string) (s3.Object, *cloud.Error) {
	found, e := s.bucket.Look(ctx, op, key)
	if e != nil && e.Code == cloud.NotFound {
		e.Code = cloud.Unavailable
	}
	return found, e
}

// upload is the object of r.
func (s Store) upload(r cloud.CreateRequest, content []byte) s3.Upload {
	tags := url.Values{nameTag: {r.Name}, ownerTag: {r.OwnerID}}
	for name, value := range s.tags {
		tags.Set(name, value)
	}
	return s3.Upload{Content: content, Tags: tags}
}

// put stores the object. A bucket that keeps versions is refused, because what is deleted
// there can still be read.
func (s Store) put(ctx context.Context, op, key string, u s3.Upload) (there bool, failed *cloud.Error) {
	version, there, e := s.bucket.Put(ctx, op, key, u)
	if e != nil || version == "" {
		return there, e
	}
	if e := s.bucket.Delete(ctx, op, key, version); e != nil {
		return false, e
	}
	return false, driverkit.WithField(cloud.Errorf(cloud.Invalid, op, "BucketKeepsVersions",
		"bucket %s keeps the versions of its objects, so boot data could be read after it was deleted", s.bucket.Name),
		Field+".bucket", "name a bucket that has never had versioning")
}

// leastSession is how long the session that signs a URL has to last: instances boot and
// fetch within less.
const leastSession = 10 * time.Minute

// presign returns a URL that is valid for the expiry after at, or until the session ends.
func (s Store) presign(ctx context.Context, op, key string, at time.Time) (string, *cloud.Error) {
	ending := func(ends time.Time) bool { return !ends.IsZero() && ends.Sub(s.bucket.Now()) < leastSession }
	link, ends, e := s.bucket.Presign(ctx, op, key, at, s.expiry)
	if e == nil && ending(ends) && s.bucket.Refresh != nil {
		s.bucket.Refresh()
		link, ends, e = s.bucket.Presign(ctx, op, key, at, s.expiry)
	}
	if e != nil {
		return "", e
	}
	if ending(ends) {
		e := cloud.Errorf(cloud.Unavailable, op, "SessionEnding",
			"the session of the credentials ends before an instance could fetch its boot data")
		e.RetryAfter = time.Minute
		return "", e
	}
	return link, nil
}

// unpacked returns data, decompressed if it is in gzip: S3 has room for it, and cloud-init
// cannot read its own copy of packed data after a reboot.
func unpacked(data []byte) []byte {
	const most = 4 << 20
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data
	}
	plain, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil || len(plain) > most {
		return data
	}
	return plain
}

// Of yields the keys of the objects of a machine. One without owner id has none.
func (s Store) Of(ctx context.Context, op string, r cloud.Ref) iter.Seq2[string, error] {
	if r.OwnerID == "" {
		return func(func(string, error) bool) {}
	}
	return driverkit.Select(s.bucket.List(ctx, op, s.ofOwner(r.OwnerID)), func(o s3.Object) (string, bool, error) {
		return o.Key, true, nil
	})
}

// Delete deletes an object.
// Codes: Denied, Throttled, Unavailable, Unknown.
func (s Store) Delete(ctx context.Context, op, key string) error {
	if e := s.bucket.Delete(ctx, op, key, ""); e != nil {
		return driverkit.Restrict(e)
	}
	return nil
}

// List yields the objects of the classes that have these ownership tags.
func (s Store) List(ctx context.Context, op string) iter.Seq2[cloud.Resource, error] {
	return driverkit.Select(s.bucket.List(ctx, op, s.root), func(o s3.Object) (cloud.Resource, bool, error) {
		r, ok := s.resource(o)
		return r, ok, nil
	})
}

// resource is an object as its key tells; ok is false if it is none of this package.
func (s Store) resource(o s3.Object) (cloud.Resource, bool) {
	const parts = 4
	names := strings.Split(strings.TrimPrefix(o.Key, s.root), "/")
	if len(names) != parts {
		return cloud.Resource{}, false
	}
	for i := range names {
		var err error
		if names[i], err = url.PathUnescape(names[i]); err != nil {
			return cloud.Resource{}, false
		}
	}
	tags := map[string]string{nameTag: names[1], ownerTag: names[0]}
	maps.Copy(tags, s.tags)
	if names[2] != noCluster {
		tags[cloud.ClusterIDTag] = names[2]
	}
	return cloud.Resource{
		Kind: Kind, ID: o.Key, OwnerID: names[0], MachineName: names[1], Created: o.Made, Tags: tags,
	}, true
}
