package token_test

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
)

func TestExtend(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const life = 20 * time.Minute
	cases := map[string]struct {
		reason string
		after  time.Duration
		owner  string
		want   time.Time
	}{
		"Young": {"A token that lives long enough is left as it is.", time.Minute, "a", began.Add(life)},
		"Old": {
			"A token that is about to expire gets a whole life.", 11 * time.Minute, "a",
			began.Add(11*time.Minute + life),
		},
		"Expired": {"A token that has expired is not raised from the dead.", 21 * time.Minute, "a", time.Time{}},
		"None":    {"Where there is no token, none is made.", time.Minute, "b", time.Time{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientBuilder().Build()
			r := token.Request{
				MachineName: "m", OwnerID: "a", Now: began, Expiration: began.Add(life),
				Rand: bytes.NewReader(make([]byte, 64)),
			}
			first, _, err := token.Ensure(t.Context(), token.Deps{Client: c, Live: c}, r)
			if err != nil {
				t.Fatal(err)
			}
			r.OwnerID, r.Now = tc.owner, began.Add(tc.after)
			r.Expiration = r.Now.Add(life)
			got, err := token.Extend(t.Context(), c, r, life/2)
			if err != nil || !got.Equal(tc.want) {
				t.Errorf("Extend() = %v, %v, want %v: %s", got, err, tc.want, tc.reason)
			}
			var list corev1.SecretList
			if err := c.List(t.Context(), &list, client.InNamespace("kube-system")); err != nil || len(list.Items) != 1 {
				t.Fatalf("%d tokens, %v", len(list.Items), err)
			}
			data := list.Items[0].Data
			if string(data["token-id"])+"."+string(data["token-secret"]) != first {
				t.Error("the token itself must not change: boot data holds it")
			}
			if want := tc.want.Format(time.RFC3339); !tc.want.IsZero() && string(data["expiration"]) != want {
				t.Errorf("expiration %s, want %s: %s", data["expiration"], want, tc.reason)
			}
		})
	}
}
