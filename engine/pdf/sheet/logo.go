package sheet

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/gif" // decoders for the logo
	_ "image/jpeg"
	"image/png"
)

// Logo is an opaque PNG with 8 bits for each channel: fpdf embeds such a picture without unpacking it.
type Logo struct {
	png  []byte
	mail []byte  // smaller, for messages
	w, h float64 // pixels
}

// ReadLogo accepts a PNG, JPEG or GIF of at most 512 KiB and 2,000 pixels in each direction.
func ReadLogo(data []byte) (*Logo, error) {
	const most, pixels = 512 << 10, 2000
	if len(data) > most {
		return nil, fmt.Errorf("%d bytes, at most %d", len(data), most)
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if c.Width < 1 || c.Height < 1 || c.Width > pixels || c.Height > pixels {
		return nil, fmt.Errorf("%d × %d pixels, at most %d either way", c.Width, c.Height, pixels)
	}
	src, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	flat := image.NewRGBA(image.Rect(0, 0, c.Width, c.Height))
	draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), src, src.Bounds().Min, draw.Over)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, flat); err != nil {
		return nil, err
	}
	l := &Logo{png: out.Bytes(), w: float64(c.Width), h: float64(c.Height)}
	w, h := l.Fit(2*mailWidth, 2*mailHeight) // twice the shown size, for screens of high resolution
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, shrink(flat, int(w),
		int(h))); err != nil {
		return nil, err
	}
	l.mail = small.Bytes()
	return l, nil
}

// mailWidth and mailHeight are the largest shown size of a logo in a message, in pixels.
const mailWidth, mailHeight = 240, 80

// Mailed returns the logo for a message, as an opaque PNG, and its shown size in pixels; nil if l is nil.
func (l *Logo) Mailed() (picture []byte, width, height int) {
	if l == nil {
		return nil, 0, 0
	}
	w, h := l.Fit(mailWidth, mailHeight)
	return l.mail, max(1, int(w)), max(1, int(h))
}

// shrink makes a large picture smaller: each point becomes the mean of the points that it replaces.
func shrink(src *image.RGBA, w, h int) image.Image {
	full := src.Bounds()
	if w, h = max(1, w), max(1, h); w >= full.Dx() || h >= full.Dy() {
		return src
	}
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			var sum [3]int
			n := 0
			for j := y * full.Dy() / h; j < (y+1)*full.Dy()/h; j++ {
				for i := x * full.Dx() / w; i < (x+1)*full.Dx()/w; i++ {
					at := src.PixOffset(i, j)
					for k := range sum {
						sum[k] += int(src.Pix[at+k])
					}
					n++
				}
			}
			out.SetRGBA(x, y, color.RGBA{uint8(sum[0] / n), uint8(sum[1] / n), uint8(sum[2] / n), 255})
		}
	}
	return out
}

// Fit returns the largest size of the logo within a box.
func (l *Logo) Fit(w, h float64) (float64, float64) {
	k := min(w/l.w, h/l.h)
	return l.w * k, l.h * k
}
