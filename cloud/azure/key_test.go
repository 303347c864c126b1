package azure

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/binary"
	"math/big"
	"strings"
	"testing"
)

// TestSpareKey: Azure refuses a VM whose SSH key it cannot read, so the key is read again here, field by field.
func TestSpareKey(t *testing.T) {
	t.Parallel()
	text, _ := strings.CutPrefix(spareKey(), "ssh-rsa ")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	var fields [][]byte
	for len(data) >= 4 {
		n := int(binary.BigEndian.Uint32(data))
		if n > len(data)-4 {
			t.Fatalf("a field of %d bytes, and %d are left", n, len(data)-4)
		}
		fields, data = append(fields, data[4:4+n]), data[4+n:]
	}
	if len(fields) != 3 || len(data) > 0 || string(fields[0]) != "ssh-rsa" || fields[2][0]&0x80 != 0 {
		t.Fatalf("%d fields and %d bytes after them, want the type, exponent and positive modulus", len(fields), len(data))
	}
	key := rsa.PublicKey{N: new(big.Int).SetBytes(fields[2]), E: int(new(big.Int).SetBytes(fields[1]).Int64())}
	if key.N.BitLen() != 2048 || key.E != 65537 {
		t.Errorf("%d bits with the exponent %d, want 2048 with 65537", key.N.BitLen(), key.E)
	}
}
