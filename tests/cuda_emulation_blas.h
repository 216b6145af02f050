/* Emulates cuBLAS for cuda_emulation.h: products of column-major matrices. */
#ifndef PPO_TEST_CUDA_EMULATION_BLAS_H
#define PPO_TEST_CUDA_EMULATION_BLAS_H

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasComputeType_t {
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16BF = 14 };

namespace emulated {
struct blas {
    cudaStream_t stream;
    cublasMath_t math;
};

/* The status of cuBLAS for an error of the runtime. */
inline cublasStatus_t blas_status(cudaError_t error) {
    return error == cudaSuccess                 ? CUBLAS_STATUS_SUCCESS
           : error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
           : error == cudaErrorLaunchFailure    ? CUBLAS_STATUS_EXECUTION_FAILED
                                                : CUBLAS_STATUS_NOT_INITIALIZED;
}

struct matrix {
    const void *data;
    cudaDataType type;
    int rows, columns, ld;
    long long stride; /* between the matrices of a batch */
    bool transposed;

    bool is_float() const { return type == CUDA_R_32F; }
    size_t at(int row, int column, int batch) const {
        if (transposed) std::swap(row, column);
        return (size_t)(stride * batch) + (size_t)column * (size_t)ld + (size_t)row;
    }
    double get(size_t i) const {
        return is_float() ? ((const float *)data)[i] : __bfloat162float(((const __nv_bfloat16 *)data)[i]);
    }
    void set(size_t i, double x) {
        if (is_float()) ((float *)data)[i] = (float)x;
        else ((__nv_bfloat16 *)data)[i] = __float2bfloat16((float)x);
    }
    bool fits(const char *name, int batches) const {
        if (!rows || !columns || !batches) return true;
        size_t size = at(rows - 1, columns - 1, batches - 1) + 1;
        return emulated::fits("a product of matrices", name, data, size * (is_float() ? 4 : 2), true);
    }
};

/* The inner product of two rows of n. Sums that are rounded are so after every 256 products. */
EMULATION_OWN inline double dot(const double *x, const double *y, int n, bool round) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i] * y[i];
        if (round && i % 256 == 255) sum = __bfloat162float(__float2bfloat16((float)sum));
    }
    return sum;
}

/* C = alpha op(A) op(B) + beta C for each of the batch, with sums in double. Does not read C if beta is 0.
   Splits long sums, and adds the partial sums in the type of C if the math mode allows that. */
inline cublasStatus_t multiply(blas *handle, float alpha, matrix a, matrix b, float beta, matrix c,
                               int batches) {
    if (cudaError_t injected = call()) return blas_status(injected);
    use(handle->stream);
    for (const matrix &x : {a, b, c})
        if (x.rows < 0 || x.columns < 0 || x.ld < std::max(1, x.transposed ? x.columns : x.rows) ||
            batches < 0)
            return CUBLAS_STATUS_INVALID_VALUE;
    if (a.type != b.type || (c.type != a.type && c.type != CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!a.fits("A", batches) || !b.fits("B", batches) || !c.fits("C", batches))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    const bool round = !c.is_float() && handle->math != CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    access access;
    const size_t length = (size_t)a.columns;
    std::vector<double> rows((size_t)a.rows * length + 1), columns((size_t)b.columns * length + 1);
    for (int batch = 0; batch < batches; batch++) {
        for (int i = 0; i < a.columns; i++) {
            for (int row = 0; row < a.rows; row++)
                rows[(size_t)row * length + (size_t)i] = a.get(a.at(row, i, batch));
            for (int column = 0; column < b.columns; column++)
                columns[(size_t)column * length + (size_t)i] = b.get(b.at(i, column, batch));
        }
        for (int column = 0; column < c.columns; column++)
            for (int row = 0; row < c.rows; row++) {
                const double sum =
                    dot(&rows[(size_t)row * length], &columns[(size_t)column * length], a.columns, round);
                const size_t at = c.at(row, column, batch);
                c.set(at, alpha * sum + (beta != 0 ? beta * c.get(at) : 0));
            }
    }
    return CUBLAS_STATUS_SUCCESS;
}
} // namespace emulated

typedef emulated::blas *cublasHandle_t;

inline cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    return emulated::blas_status(emulated::create(handle));
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    return emulated::blas_status(emulated::destroy(handle));
}
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return emulated::blas_status(emulated::call());
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
    handle->math = math;
    return emulated::blas_status(emulated::call());
}
inline const char *cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS           ? "success"
           : status == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized"
           : status == CUBLAS_STATUS_ALLOC_FAILED    ? "the resource allocation failed"
           : status == CUBLAS_STATUS_INVALID_VALUE
               ? "an unsupported value or parameter was passed to the function"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "the functionality requested is not supported"
                                                   : "the function failed to launch on the GPU";
}

inline cublasStatus_t
cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                           int n, int k, const void *alpha, const void *a, cudaDataType type_a, int ld_a,
                           long long stride_a, const void *b, cudaDataType type_b, int ld_b,
                           long long stride_b, const void *beta, void *c, cudaDataType type_c, int ld_c,
                           long long stride_c, int batches, cublasComputeType_t, cublasGemmAlgo_t) {
    return emulated::multiply(handle, *(const float *)alpha,
                              {a, type_a, m, k, ld_a, stride_a, op_a != CUBLAS_OP_N},
                              {b, type_b, k, n, ld_b, stride_b, op_b != CUBLAS_OP_N}, *(const float *)beta,
                              {c, type_c, m, n, ld_c, stride_c, false}, batches);
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                   int m, int n, int k, const void *alpha, const void *a, cudaDataType type_a,
                                   int ld_a, const void *b, cudaDataType type_b, int ld_b, const void *beta,
                                   void *c, cudaDataType type_c, int ld_c, cublasComputeType_t compute,
                                   cublasGemmAlgo_t how) {
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, ld_a, 0, b, type_b, ld_b,
                                      0, beta, c, type_c, ld_c, 0, 1, compute, how);
}
inline cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                                cublasOperation_t op_b, int m, int n, int k,
                                                const float *alpha, const float *a, int ld_a,
                                                long long stride_a, const float *b, int ld_b,
                                                long long stride_b, const float *beta, float *c, int ld_c,
                                                long long stride_c, int batches) {
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, CUDA_R_32F, ld_a, stride_a, b,
                                      CUDA_R_32F, ld_b, stride_b, beta, c, CUDA_R_32F, ld_c, stride_c,
                                      batches, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                  int m, int n, int k, const float *alpha, const float *a, int ld_a,
                                  const float *b, int ld_b, const float *beta, float *c, int ld_c) {
    return cublasSgemmStridedBatched(handle, op_a, op_b, m, n, k, alpha, a, ld_a, 0, b, ld_b, 0, beta, c,
                                     ld_c, 0, 1);
}

#endif /* PPO_TEST_CUDA_EMULATION_BLAS_H */
