// Package qrtest reads QR codes as a scanner does, for tests.
package qrtest

import (
	"image"
	"image/color"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
)

// Paint fills dark squares on white, three pixels each.
func Paint(size int, dark func(x, y int) bool) image.Image {
	const k = 3
	img := image.NewGray(image.Rect(0, 0, size*k, size*k))
	for y := range size * k {
		for x := range size * k {
			if img.SetGray(x, y, color.Gray{255}); dark(x/k, y/k) {
				img.SetGray(x, y, color.Gray{0})
			}
		}
	}
	return img
}

func Decode(t *testing.T, img image.Image) string {
	t.Helper()
	bitmap, err := gozxing.NewBinaryBitmapFromImage(img)
	if err != nil {
		t.Fatal(err)
	}
	// The code fills the picture, so no search for it is needed: the decoder's own search misses some upright codes.
	r, err := qrcode.NewQRCodeReader().Decode(bitmap,
		map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetText()
}
