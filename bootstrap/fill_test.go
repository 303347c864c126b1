package bootstrap_test

import (
	"errors"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
)

func TestFill(t *testing.T) {
	t.Parallel()
	values := bootstrap.Values{MachineName: "m-1", Token: "abcdef.0123456789abcdef"}
	cases := map[string]struct {
		reason string
		data   string
		values bootstrap.Values
		want   string
		err    error
	}{
		"Plain": {
			reason: "Every plain placeholder is replaced.",
			data:   "<<MACHINE_NAME>> <<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>>", values: values,
			want: "m-1 abcdef.0123456789abcdef m-1",
		},
		"Encoded": {
			reason: "Ignition embeds files URL-encoded, so the value is encoded too.",
			data:   "data:,name%3D%3C%3CMACHINE_NAME%3E%3E", values: bootstrap.Values{MachineName: "a b"},
			want: "data:,name%3Da+b",
		},
		"PlainWins": {
			reason: "MCM leaves encoded placeholders alone where there is a plain one.",
			data:   "<<MACHINE_NAME>> %3C%3CMACHINE_NAME%3E%3E", values: values,
			want: "m-1 %3C%3CMACHINE_NAME%3E%3E",
		},
		"EachOnItsOwn": {
			reason: "The two placeholders may have different forms.",
			data:   "<<MACHINE_NAME>> %3C%3CBOOTSTRAP_TOKEN%3E%3E", values: values,
			want: "m-1 abcdef.0123456789abcdef",
		},
		"None": {reason: "Data without placeholders stays as it is.", data: "plain", values: values, want: "plain"},
		"NoToken": {
			reason: "A VM that cannot join must not be made.", data: "<<BOOTSTRAP_TOKEN>>",
			values: bootstrap.Values{MachineName: "m"}, err: bootstrap.ErrNoToken,
		},
		"KeepToken": {
			reason: "Without target cluster MCM leaves the placeholder.",
			data:   "<<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>>", values: bootstrap.Values{
				MachineName: "m",
				Token:       bootstrap.KeepToken,
			},
			want: "<<BOOTSTRAP_TOKEN>> m",
		},
		"KeepTokenEncoded": {
			reason: "The same in the encoded form.",
			data:   "%3C%3CBOOTSTRAP_TOKEN%3E%3E", values: bootstrap.Values{Token: bootstrap.KeepToken},
			want: "%3C%3CBOOTSTRAP_TOKEN%3E%3E",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := bootstrap.Fill([]byte(tc.data), tc.values)
			if string(got) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("Fill() = %q, %v, want %q, %v: %s", got, err, tc.want, tc.err, tc.reason)
			}
		})
	}
}

func FuzzFill(f *testing.F) {
	f.Add([]byte("<<BOOTSTRAP_TOKEN>>%3C%3CMACHINE_NAME%3E%3E"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := bootstrap.Fill(data, bootstrap.Values{MachineName: "m", Token: "abcdef.0123456789abcdef"})
		if err != nil {
			t.Fatal(err)
		}
		again, err := bootstrap.Fill(data, bootstrap.Values{MachineName: "m", Token: "abcdef.0123456789abcdef"})
		if err != nil || string(again) != string(out) {
			t.Errorf("Fill is not stable: %q, then %q", out, again)
		}
		if _, err := bootstrap.Pack(data, len(data)/2); err != nil {
			if _, ok := errors.AsType[*bootstrap.TooLargeError](err); !ok {
				t.Errorf("Pack() = %v, want a TooLargeError", err)
			}
		}
	})
}
