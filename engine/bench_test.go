package engine_test

import (
	"context"
	"fmt"
	"testing"

	"dtegate/engine/enginetest"
)

// BenchmarkIssue measures the whole engine for one sale of ten lines in contingency, on a real disk, and the bare
// signature that every issuing needs.
func BenchmarkIssue(b *testing.B) {
	w := enginetest.NewWorldOnDisk(b)
	defer w.Close()
	req := manyLined("", 10)
	req.TestContingency = true
	b.Run("issue", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			req.Caller = enginetest.TestCaller(i%8 + 1)
			if _, err := w.Engine.Issue(context.Background(), req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("signature", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := w.Engine.Signer().Right([16]byte{}, fmt.Sprint(i)).Sign(context.Background(),
				make([]byte, 6000)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
