package mirror

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// TestRestore: a server that is restored shows what it showed then, and so does a cache
// that lives on, as soon as it moves.
func TestRestore(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	s := apiserver.New(func() time.Time { return now }, func() types.UID { return types.UID(now.String()) })
	s.Serve(apiserver.Kind{GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespaced: true},
		&corev1.Secret{}, &corev1.SecretList{})
	k := s.KindOf(&corev1.Secret{})
	secret := func(name string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	create := func(name string) {
		now = now.Add(time.Minute)
		if _, err := s.Create("test", secret(name)); err != nil {
			t.Fatal(err)
		}
	}
	create("stays")
	create("comes back")
	backup, version := now, s.Version()
	if err := s.Delete("test", k, client.ObjectKeyFromObject(secret("comes back")), &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create("vanishes")
	cache := New(s, func(*apiserver.Kind) int { return 0 }).Of(k)
	s.Restore(backup.Add(-time.Second))
	if n := len(k.All()); n != 1 {
		t.Errorf("there are %d Secrets, want the one from before the backup", n)
	}
	s.Restore(backup)
	if s.Version() >= version || cache.Behind() == 0 {
		t.Errorf("the version is %d, the cache %d behind; want an older one than %d, and a cache that has to move",
			s.Version(), cache.Behind(), version)
	}
	s.Bump(100)
	create("new")
	for cache.Behind() > 0 {
		cache.Next()
	}
	for name, want := range map[string]bool{"stays": true, "comes back": false, "vanishes": false, "new": true} {
		key := client.ObjectKeyFromObject(secret(name))
		if got := cache.Store()[key] != nil; got != want || (k.Look(key) != nil) != want {
			t.Errorf("%s: the cache shows it: %v, the server: %v, want %v", name, got, k.Look(key) != nil, want)
		}
	}
	if v := k.Look(client.ObjectKeyFromObject(secret("new"))).GetResourceVersion(); v != "101" {
		t.Errorf("the next version is %s, want 101", v)
	}
}
