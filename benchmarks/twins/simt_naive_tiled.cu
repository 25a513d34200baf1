// The hand-written twin of examples/03_matmul_tiled.py: C = A * B^T in fp32, A (M, K), B (N, K), C (M, N), all
// column-major, extents multiples of the 128x128x8 tile.  Kernel k(A, B, C, M, N, K), grid (M/128)(N/128), 256 threads,
// static shared memory; compile with -arch=sm_90a -std=c++17, no headers.  One stage, filled by plain loads and stores.
//   -DAX -DAY threads along M and N; -DPAD elements after each column

#ifndef AX
#define AX 16
#define AY 16
#endif
#ifndef PAD
#define PAD 1
#endif
#define LD (128+PAD)
#define TI (128/AX)
#define TJ (128/AY)
extern "C" __global__ void __launch_bounds__(256) k(const float*__restrict__ A,const float*__restrict__ B,float*__restrict__ C,int M,int N,int K){
  const int t=threadIdx.x, tx=t%32, ty=t/32, tm=t%AX, tn=t/AX; const int nb=M/128;
  const int m0=(blockIdx.x%nb)*128, n0=(blockIdx.x/nb)*128; const int KT=K/8;
  float acc[TI][TJ];
  #pragma unroll
  for(int i=0;i<TI;i++)
  #pragma unroll
  for(int j=0;j<TJ;j++)acc[i][j]=0.f;
  __shared__ __align__(16) float sA[8*LD],sB[8*LD];
  auto load=[&](int kt){
    #pragma unroll
    for(int i=0;i<4;i++){int m=tx+32*i;
      sA[ty*LD+m]=A[(size_t)(kt*8+ty)*M+m0+m];
      sB[ty*LD+m]=B[(size_t)(kt*8+ty)*N+n0+m];} };

  for(int kt=0;kt<KT;kt++){
    load(kt);
    __syncthreads();
    #pragma unroll
    for(int k=0;k<8;k++){
      float fa[TI],fb[TJ];
      #pragma unroll
      for(int i=0;i<TI;i++)fa[i]=sA[k*LD+tm+AX*i];
      #pragma unroll
      for(int j=0;j<TJ;j++)fb[j]=sB[k*LD+tn+AY*j];
      #pragma unroll
      for(int i=0;i<TI;i++)
      #pragma unroll
      for(int j=0;j<TJ;j++) acc[i][j]+=fa[i]*fb[j];
    }
    __syncthreads();
  }
  #pragma unroll
  for(int j=0;j<TJ;j++)
  #pragma unroll
  for(int i=0;i<TI;i++) C[(size_t)(n0+tn+AY*j)*M+m0+tm+AX*i]=acc[i][j];
}
